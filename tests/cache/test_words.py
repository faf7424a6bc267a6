"""Word statistics: rare words count more, tables merge, and no word can be read from them."""

from __future__ import annotations

from cache.acceptance import WordStatistics

SECRET = b"secret"


def table(*texts: str, secret: bytes = SECRET) -> WordStatistics:
    words = WordStatistics(secret)
    for text in texts:
        words.add(text.split())
    return words


def test_the_rarer_a_word_the_more_it_counts() -> None:
    words = table("my card", "my pin", "my top-up", "my card")
    assert words.rarity("unseen") == 1
    assert 1 > words.rarity("pin") > words.rarity("card") > words.rarity("my") >= 0


def test_a_word_counts_once_in_a_text() -> None:
    assert table("no no no", "yes").rarity("no") == table("no", "yes").rarity("no")


def test_merging_is_counting_together() -> None:
    both = table("my card")
    both.merge(table("my pin", "your pin"))
    assert both.counts == table("my card", "my pin", "your pin").counts
    assert both.texts == 3


def test_a_table_can_be_stored_and_restored() -> None:
    words = table("my card", "my pin")
    again = WordStatistics(SECRET, texts=words.texts, counts=words.counts)
    assert again.rarity("pin") == words.rarity("pin")


def test_words_are_kept_as_keyed_digests() -> None:
    words = table("guessable")
    assert all(len(name) == 8 for name in words.counts)
    assert words.counts.keys() != table("guessable", secret=b"other").counts.keys()
    assert "guessable" not in repr(words)


def test_a_full_table_forgets_what_was_seen_least() -> None:
    words = WordStatistics(SECRET, most_words=100)
    for number in range(300):
        words.add(["common", f"word{number}"])
    assert len(words) <= 100
    assert words.rarity("common") < 0.2


def test_half_a_surrogate_pair_is_a_word() -> None:
    assert table("\ud83d").rarity("\ud83d") < 1
