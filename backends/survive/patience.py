"""How long a member's silence is borne: gives up when one wait lasts too long, or at the request's deadline.

A timer is set once in a while and looks whether the present wait is old enough: one for each of a stream's hundreds
of waits would cost as much as reading them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Patience:
    """Calls `give_up` at most once; `gave_up` then says why: the reason given to `allow`, or "deadline".

    Only waits count. Whoever is slow to come back for more does not make the member late.
    """

    def __init__(
        self, *, limit_s: float, reason: str, deadline_s: float, give_up: Callable[[], None]
    ) -> None:
        self.gave_up: str | None = None
        self._limit_s = limit_s
        self._reason = reason
        self._deadline_s = deadline_s
        self._give_up = give_up
        self._waiting_since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def allow(self, limit_s: float, *, reason: str) -> None:
        """From now on a wait may last this long."""
        if (limit_s, reason) != (self._limit_s, self._reason):
            self._limit_s, self._reason = limit_s, reason
            self.stop()

    def begin_wait(self) -> None:
        self._waiting_since_s = time.monotonic()
        if self._timer is None:
            self._look_at(min(self._waiting_since_s + self._limit_s, self._deadline_s))

    def end_wait(self) -> None:
        self._waiting_since_s = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at(self, moment_s: float) -> None:
        delay_s = max(moment_s - time.monotonic(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiting_since_s is None:
            return  # the next wait sets the next timer
        now_s, late_s = time.monotonic(), self._waiting_since_s + self._limit_s
        if now_s < min(late_s, self._deadline_s):
            self._look_at(min(late_s, self._deadline_s))
            return
        self.gave_up = "deadline" if now_s >= self._deadline_s else self._reason
        self._give_up()
