"""Decides whether an embedder reads a text faithfully, by counting its own word pieces.

A text cut off at the window, or made of unknown pieces, looks like another text to the model: their cosine is
1 and no threshold helps. Such texts are refused before they become vectors.
"""

from __future__ import annotations

from ..errors import UnfitText

# Characters for every piece of the window. Counting the pieces of megabytes would take longer than the answer
# is worth; a longer text that might still fit (a lot of blank space) is refused too, which is safe.
_LONGEST_WORTH_COUNTING = 32
_MOST_UNKNOWN = 0.05


def check_length(text: str, *, window: int) -> None:
    """Before tokenising. Raises `UnfitText`."""
    if len(text) > window * _LONGEST_WORTH_COUNTING:
        raise UnfitText("too-long")


def check_pieces(*, pieces: int, specials: int, unknown: int, window: int) -> None:
    """`pieces` counts the special ones too, as the window does. Raises `UnfitText`."""
    if pieces > window:
        raise UnfitText("too-long")
    words = pieces - specials
    if words <= 0:
        raise UnfitText("no-words")
    if unknown > words * _MOST_UNKNOWN:
        raise UnfitText("unknown-tokens")
