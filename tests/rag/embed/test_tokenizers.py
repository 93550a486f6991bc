"""Counting tokens: the model's own, a file, and the estimate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haiku.rag.config.models import EmbeddingModelConfig
from haiku.rag.embed import load_tokenizer, minilm
from haiku.rag.embed.tokenizers import CautiousTokenizer, FileTokenizer, encodable
from haiku.rag.exceptions import ConfigError

OWN = load_tokenizer(EmbeddingModelConfig())
CAUTIOUS = CautiousTokenizer()
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=200)


def test_the_own_one_counts_special_tokens_and_cuts_nothing():
    assert OWN.count("") == 2
    assert OWN.count("hello world") == 4
    assert OWN.count("word " * 5000) == 5002
    assert OWN.additive


def test_ends_are_where_tokens_end():
    assert OWN.ends("Hello, wörld") == [5, 6, 12]


@given(ANYTHING)
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("tokenizer", [OWN, CAUTIOUS], ids=["own", "cautious"])
def test_any_text(tokenizer, text):
    ends = tokenizer.ends(text)
    assert ends == sorted(ends)
    assert tokenizer.count(text) == len(ends) + 2
    assert not ends or 0 < ends[-1] <= len(text)


@given(ANYTHING, ANYTHING)
@settings(max_examples=200, deadline=None)
def test_additive_as_promised(one, other):
    assert OWN.count(f"{one}\n{other}") == OWN.count(one) + OWN.count(other) - 2


@given(ANYTHING)
@settings(max_examples=100, deadline=None)
def test_encodable(text):
    cleaned = encodable(text)
    cleaned.encode()
    assert len(cleaned) == len(text)


# Tokens of cl100k_base and o200k_base, the larger of both, counted once with an implementation
# of them; see docs/decisions/token-estimate.md.
REAL = {
    "english": ("The committee approved the revised budget, although two members abstained. ", 14),
    "capitals": ("THE QUICK BROWN FOX JUMPS OVER XKCD QZRT ", 15),
    "random words": ("qzxv wkjp vbnmq xtrw plkjh zzgq ", 19),
    "german": ("Die Donaudampfschifffahrtsgesellschaft überprüfte sämtliche Rechnungen. ", 24),
    "russian": ("Вчера вечером мы обсуждали результаты исследования. ", 23),
    "chinese": ("采购订单自动审批流程需要在系统中配置审批人。", 21),
    "japanese": ("昨日の会議では、予算について詳しく話し合いました。", 26),
    "korean": ("어제 회의에서는 내년 예산에 대해 논의했습니다. ", 23),
    "hindi": ("कल शाम हमने शोध के परिणामों पर चर्चा की। ", 38),
    "amharic": ("ትናንት ማታ የጥናት ውጤት ተወያይተናል ", 61),
    "emoji": ("😀🚀👩‍👩‍👧‍👦✨", 25),
    "digits": ("4815162342 1234567 98765 ", 12),
    "code": ("\tfor (int i = 0; i < n; ++i) {\n\t\tx[i] += 1;\n\t}\n", 26),
    "base64": ("aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ=", 27),
}


@pytest.mark.parametrize("kind", REAL)
def test_the_estimate_is_never_under(kind):
    text, tokens = REAL[kind]
    assert CAUTIOUS.count(text * 10) - CAUTIOUS.SPECIAL >= tokens * 10


def test_the_estimate_is_not_far_over_for_plain_text():
    text, tokens = REAL["english"]
    assert CAUTIOUS.count(text * 10) < 1.5 * tokens * 10


# --- which one a model gets ---


def test_a_configured_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(minilm.read_tokenizer())
    model = EmbeddingModelConfig(provider="openai", name="any", tokenizer=path)
    assert isinstance(load_tokenizer(model), FileTokenizer)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"no json"])
def test_a_configured_file_that_is_none(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    model = EmbeddingModelConfig(provider="openai", name="any", tokenizer=path)
    with pytest.raises(ConfigError, match=r"embeddings\.model\.tokenizer: .*tokenizer\.json"):
        load_tokenizer(model)


def test_a_folder_of_sentence_transformers(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(minilm.read_tokenizer())
    model = EmbeddingModelConfig(provider="sentence-transformers", name=str(tmp_path))
    assert isinstance(load_tokenizer(model), FileTokenizer)


@pytest.mark.parametrize("provider", ["openai", "ollama", "sentence-transformers"])
def test_else_the_estimate(provider):
    model = EmbeddingModelConfig(provider=provider, name="some-model")
    assert isinstance(load_tokenizer(model), CautiousTokenizer)
