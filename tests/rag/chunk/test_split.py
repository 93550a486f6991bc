"""Cutting a text: everything kept, bounded, at the best places, in linear time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rag.chunk.chunking import TOKENIZER

from haiku.rag.chunk.split import split
from haiku.rag.embed.tokenizers import CautiousTokenizer

CAUTIOUS = CautiousTokenizer()


def pieces(text: str, room: int, tokenizer=TOKENIZER) -> list[str]:
    return [text[a:b] for a, b in split(text, room, tokenizer)]


TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab .\n\t!?。;é́👩‍👧🏽采0"),
        st.characters(exclude_categories=()),
    ),
    max_size=400,
)


@given(TEXTS, st.integers(1, 40), st.sampled_from([TOKENIZER, CAUTIOUS]))
@settings(max_examples=150, deadline=None)
def test_pieces_are_the_text(text, room, tokenizer):
    found = pieces(text, room, tokenizer)
    assert "".join(found) == text
    assert all(found) or not text


@given(st.lists(st.sampled_from(["tree", "Über", "x", "encyclopaedia", "4711"]), max_size=300))
@settings(max_examples=50, deadline=None)
def test_no_piece_of_words_is_over(words):
    for piece in pieces(" ".join(words), 20):
        assert TOKENIZER.count(piece) - 2 <= 20


def test_paragraphs_before_sentences_before_words():
    paragraph = "One two three four five six. Seven eight nine ten"
    assert pieces(f"{paragraph}\n\n{paragraph}", 14)[0] == paragraph + "\n\n"
    assert pieces(paragraph, 9)[0] == "One two three four five six. "
    assert pieces("one two three four", 3) == ["one two three ", "four"]


def test_a_sentence_without_blanks_behind_it():
    assert pieces("采购订单。自动审批。流程", 8)[0] == "采购订单。"


@pytest.mark.parametrize("cluster", ["é̂", "👩‍👩‍👧", "👍🏽", "ก็"])
def test_marks_and_joined_emoji_stay_with_their_base(cluster):
    text = "".join([cluster] * 30)
    tokenizer = CAUTIOUS
    for piece in pieces(text, 2 * tokenizer.count(cluster), tokenizer):
        assert len(piece) % len(cluster) == 0, piece


def test_tables_break_at_cells():
    assert pieces("Name: Ada; Born: eighteen", 6)[0] == "Name: Ada; "


class Counting:
    """Counts the characters it is given."""

    additive = True

    def __init__(self):
        self.seen = 0

    def count(self, text):
        self.seen += len(text)
        return len(text.split()) + 2

    def ends(self, text):
        self.seen += len(text)
        return [i + 1 for i in range(len(text))]


@pytest.mark.parametrize(
    "text", ["word " * 60_000, "x" * 300_000, " " * 300_000, "line\n" * 60_000]
)
def test_every_character_is_tokenized_a_bounded_number_of_times(text):
    tokenizer = Counting()
    list(split(text, 256, tokenizer))
    assert tokenizer.seen < 1.5 * len(text)
