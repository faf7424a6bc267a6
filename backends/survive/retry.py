"""What counts as a failed attempt, and whether another may follow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from ..sse import DONE, Event

_MAX_ATTEMPTS = 2
_FAILED_STATUS = frozenset({500, 502, 503, 504})


def may_retry(attempts: int, *, has_untried: bool, now_s: float, deadline_s: float) -> bool:
    """One retry, on another member, while there is time."""
    return attempts < _MAX_ATTEMPTS and has_untried and now_s < deadline_s


def failure_in_status(status: int) -> str | None:
    """The machine word for a reply that is a failure of the server; None for answers, refusals included."""
    return "status" if status in _FAILED_STATUS else None


def rest_asked(status: int, headers: Mapping[str, str]) -> float | None:
    """For how many seconds the server asks to be left alone; None where it does not say so in seconds."""
    if status not in (429, 503):
        return None
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def failure_in_events(events: Sequence[Event]) -> str | None:
    """The machine word for a stream that fails in its first event (or ends without one), though its status is 200.

    vLLM reports a dead engine as an error frame and then sends `[DONE]`; a generation that failed before its first
    token gives a bare `[DONE]`.
    """
    if not events or events[0].data == DONE:
        return "empty-stream"
    data = events[0].data
    if not data.startswith(b"{"):
        return "not-json"
    if b'"error"' in data and _is_error(data):
        return "error-frame"
    return None


def _is_error(data: bytes) -> bool:
    try:
        return bool(json.loads(data).get("error"))
    except (ValueError, RecursionError):
        return True
