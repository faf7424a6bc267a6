"""Counts in how many questions each word of a namespace stands: a rare word that two questions share says much.

Words are kept as keyed digests. The table outlives the questions, and a name in it must not be readable.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable, Mapping

_DIGEST_BYTES = 8
_WORDS_REMEMBERED = 16_384


class WordStatistics:
    """Of one namespace. Bounded: when full, the words seen least are forgotten, and count as new if they come again.

    `secret` keys the digests; tables are only merged under one secret.
    """

    def __init__(
        self,
        secret: bytes = b"",
        *,
        texts: int = 0,
        counts: Mapping[bytes, int] | None = None,
        most_words: int = 50_000,
    ) -> None:
        self._secret = secret[: hashlib.blake2b.MAX_KEY_SIZE]
        self._most_words = most_words
        self._counts = dict(counts or {})
        self.texts = texts
        self._make_room()

    def __repr__(self) -> str:
        return f"WordStatistics({self.texts} texts, {len(self._counts)} words)"

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def counts(self) -> Mapping[bytes, int]:
        """Questions by digest of word: with `texts`, all there is to store."""
        return self._counts

    def add(self, words: Iterable[str]) -> None:
        """One more question, of these words."""
        self.texts += 1
        for word in set(words):
            name = self._name(word)
            self._counts[name] = self._counts.get(name, 0) + 1
        self._make_room()

    def merge(self, other: WordStatistics) -> None:
        """Add what another worker counted."""
        self.texts += other.texts
        for name, count in other.counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        self._make_room()

    def rarity(self, word: str) -> float:
        """Inverse document frequency over its highest possible value: 1 for a word never seen, near 0 for "the"."""
        seen = self._counts.get(self._name(word), 0)
        return max(0.0, math.log((self.texts + 1) / (seen + 0.5)) / math.log((self.texts + 1) / 0.5))

    def _name(self, word: str) -> bytes:
        return _digest(self._secret, word)

    def _make_room(self) -> None:
        if len(self._counts) > self._most_words:
            # A quarter at once: sorting all for each new word would cost more than the words are worth.
            kept = sorted(self._counts.items(), key=lambda entry: -entry[1])[: self._most_words * 3 // 4]
            self._counts = dict(kept)


@functools.lru_cache(maxsize=_WORDS_REMEMBERED)
def _digest(secret: bytes, word: str) -> bytes:
    # Half a surrogate pair can stand in a text; it is a word like any other here.
    said = word.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=_DIGEST_BYTES, key=secret).digest()
