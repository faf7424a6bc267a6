"""What the end of an attempt says of its member."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["well", "failed", "unreached", "nothing"]

# The caller left, asked for too much, or waited in a queue of ours: nobody's fault over there.
_OURS = frozenset({"cancelled", "internal", "too-large", "busy", "denied", "too-late"})
_UNREACHED = frozenset({"connect", "reset"})


def verdict(error: str | None, *, is_stream: bool, silent_s: float, patience_s: float) -> Verdict:
    """`error` is the attempt's machine word, `silent_s` how long nothing came.

    A deadline that passed on a stream blames the member as a timeout does. On a whole answer it does so only after
    `patience_s` of silence: until then the silence may be work, and the deadline the caller's impatience.
    """
    if error is None:
        return "well"
    if error in _OURS:
        return "nothing"
    if error in ("timeout", "deadline") and not is_stream and silent_s < patience_s:
        return "nothing"
    return "unreached" if error in _UNREACHED else "failed"
