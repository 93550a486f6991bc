"""Counting tokens offline: by a `tokenizer.json`, or by a cautious estimate.

In: text. Out: counts, and places to cut. Rules: nothing is downloaded; an estimate errs upwards.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from haiku.rag.embed import minilm
from haiku.rag.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, replaced; as long as before."""
    return _SURROGATE.sub("�", text)


class FileTokenizer:
    """The tokenizer that a `tokenizer.json` (Hugging Face's format) describes."""

    def __init__(self, content: bytes) -> None:
        """Raises `ValueError` when the content is no such file."""
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception
            raise ValueError(str(error)) from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # BERT's splits at blanks before anything else; others may join across a line end.
        steps = (self._tokenizer.normalizer, self._tokenizer.pre_tokenizer)
        self.additive = [type(step).__name__ for step in steps] == [
            "BertNormalizer",
            "BertPreTokenizer",
        ]

    def count(self, text: str) -> int:
        """Number of tokens, special tokens included."""
        # One at a time: a batch of one would go through the library's thread pool.
        return len(self._tokenizer.encode(encodable(text)))

    def count_words(self, words: Sequence[str]) -> list[int]:
        """Number of tokens of each word."""
        return list(map(len, self._tokenizer.encode_batch_fast(words, add_special_tokens=False)))

    def ends(self, text: str) -> list[int]:
        """Where each token ends, in characters; special tokens aside."""
        encoding = self._tokenizer.encode(encodable(text), add_special_tokens=False)
        return [end for _, end in encoding.offsets]


def from_file(path: Path) -> FileTokenizer:
    """The tokenizer of `embeddings.model.tokenizer`.

    Raises:
        ConfigError: the file cannot be read or is no `tokenizer.json`.
    """
    try:
        return FileTokenizer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"embeddings.model.tokenizer: {path} cannot be used as a tokenizer.json: {error}"
        ) from None


class CautiousTokenizer:
    """An upper estimate for models whose tokenizer is not at hand.

    Splits the text as the pre-tokenizers of current models do and charges every run by its kind.
    Latin words cost what the bundled WordPiece makes of them and a seventh more; capitals a token
    for every two; digits, punctuation and line ends one each; other scripts what byte-level
    vocabularies need of them, up to the bytes of UTF-8. Measured against cl100k and o200k:
    `docs/decisions/token-estimate.md`.
    """

    additive = False
    #: Begin and end markers that models add.
    SPECIAL = 2
    #: Pieces of the bundled vocabulary of 30,000 are fewer than those of others, at the worst.
    MARGIN = 1.15
    #: Words remembered at most.
    REMEMBERED = 100_000

    def __init__(self) -> None:
        """Reads the bundled vocabulary. Raises `EmbedderRefused` when its file is damaged."""
        self._tokenizer = FileTokenizer(minilm.read_tokenizer())
        #: Pieces of the words met so far; a language's words come again and again.
        self._pieces: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Most tokens the text is expected to have, special tokens included."""
        return self.SPECIAL + sum(cost for _, _, cost in self._runs(text))

    def ends(self, text: str) -> list[int]:
        """Where each estimated token ends, in characters."""
        found: list[int] = []
        for start, end, cost in self._runs(text):
            found.extend(start + -(-(end - start) * i // cost) for i in range(1, cost + 1))
        return found

    def _runs(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Start, end and cost of every run, in order."""
        matches = list(_RUN.finditer(text))
        self._meet({match["word"] for match in matches if match["word"]})
        owed = 0.0
        for match in matches:
            if match["word"]:
                # The margin is charged where it has come to a whole token.
                owed += self._pieces[match["word"]] * self.MARGIN
                cost = math.ceil(owed)
                owed -= cost
            else:
                cost = _cost(match)
            yield (*match.span(), cost)

    def _meet(self, words: set[str]) -> None:
        """Count the words that are new."""
        if len(self._pieces) > self.REMEMBERED:
            self._pieces.clear()
        new = [word for word in words if word not in self._pieces]
        self._pieces.update(zip(new, self._tokenizer.count_words(new), strict=True))


#: One run a match: a word, capitals or a sign, each with the blank before it; another character;
#: blanks.
_RUN = re.compile(
    r" ?(?P<word>[A-Z]?[a-z]{1,40})| ?(?P<caps>[A-Z]+)| ?[!-~]|(?P<other>[^ ])| {1,16}",
    re.DOTALL,
)

#: Last code point of a range, and the tokens one of its characters costs at most in practice.
_COSTS = (
    (0x007F, 1),  # ASCII
    (0x036F, 2),  # Latin with marks, phonetic, combining marks
    (0x052F, 1),  # Greek, Cyrillic
    (0x058F, 2),  # Armenian
    (0x06FF, 1),  # Hebrew, Arabic
    (0x07FF, 2),
    (0x08FF, 3),
    (0x0E7F, 2),  # the scripts of India, Thai
    (0x1FFF, 3),
    (0x33FF, 2),  # punctuation, symbols, kana
    (0x4DBF, 3),  # rare Han
    (0x9FFF, 2),  # Han
    (0xABFF, 3),
    (0xD7FF, 2),  # Hangul
    (0xFEFF, 3),
    (0xFFEF, 2),  # full and half width forms
    (0xFFFF, 3),
    (0x10FFFF, 4),
)
_LAST = [last for last, _ in _COSTS]


def _cost(match: re.Match[str]) -> int:
    if match["caps"]:
        return -(-len(match["caps"]) // 2)
    if match["other"]:
        return _COSTS[bisect_left(_LAST, ord(match["other"]))][1]
    return 1
