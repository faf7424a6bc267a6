"""The thread that keeps indexes in order behind everything else: one a process, begun when needed."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from .training import Pause

A_MOMENT_S = 0.0001


class Tended(Protocol):
    def tend(self, pause: Pause) -> None: ...


class _Closed(BaseException):
    """Ends what the thread is at. Not an error, so that nothing takes it for one."""


class Upkeep:
    """`failures` counts what went wrong; the index concerned goes on as it was."""

    def __init__(self) -> None:
        self.failures = 0
        self._changed = threading.Condition()
        self._noted: dict[Tended, None] = {}
        self._is_busy = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def note(self, index: Tended) -> None:
        """From any thread: there is something to do for this one."""
        with self._changed:
            if self._is_closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="index upkeep", daemon=True)
                self._thread.start()
            self._noted[index] = None
            self._changed.notify_all()

    def settle(self, *, within_s: float) -> bool:
        """Wait until nothing is left to do; False if that took longer. Not on the loop."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._noted and not self._is_busy, within_s)

    def close(self) -> None:
        """Waits for the piece of work at hand, which takes seconds at most."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (index := self._next()) is not None:
            try:
                index.tend(self._pause)
            except _Closed:
                return
            except Exception:  # the thread must live on; whoever looks sees the count
                self.failures += 1

    def _next(self) -> Tended | None:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._noted or self._is_closed)
            if self._is_closed:
                return None
            index = next(iter(self._noted))
            del self._noted[index]
            self._is_busy = True
            return index

    def _pause(self) -> None:
        """Between pieces of work: others that want to run Python do so now. They need a moment to wake up."""
        if self._is_closed:
            raise _Closed
        time.sleep(A_MOMENT_S)
