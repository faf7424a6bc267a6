"""One request at one member: counted before it is sent, judged when it ends, given back on every way out."""

from __future__ import annotations

from collections.abc import Callable

from .books import Books
from .facts import Recovery, VersionCounts
from .survive import verdict


class Trial:
    """`end` it on every way out; what comes after the first time is ignored."""

    def __init__(
        self,
        books: Books,
        *,
        counts: VersionCounts,
        is_stream: bool,
        patience_s: float,
        clock: Callable[[], float],
        on_recovery: Callable[[Recovery], None],
    ) -> None:
        self._books = books
        self._counts = counts
        self._is_stream = is_stream
        self._patience_s = patience_s
        self._clock = clock
        self._on_recovery = on_recovery
        self._began_s = self._heard_s = clock()
        self._is_over = False
        self._decides = books.breaker.begin(self._began_s)
        books.in_flight.add(self._began_s, 1)
        counts.begun += 1

    def note_answer(self, *, is_first_token: bool = False) -> None:
        """The first event of a stream, or a whole answer: the member works. Refusals are answers as well."""
        now_s, books = self._clock(), self._books
        self._heard_s = now_s
        if is_first_token:
            books.vitals.note_first_token(now_s - self._began_s)
            self._counts.first_tokens += 1
            self._counts.first_token_s_total += now_s - self._began_s
        was_open_s = books.breaker.note_success(began_s=self._began_s, now_s=now_s)
        self._decides = False
        if was_open_s is not None:
            books.warmup.begin(now_s)
            self._on_recovery(Recovery(books.member.name, "failure", was_open_s))
        books.warmup.note_success(now_s)

    def note_rest(self, seconds: float) -> None:
        """The member asked not to be sent anything for a while."""
        self._books.rest(seconds, now_s=self._clock())

    def end(self, error: str | None = None, *, is_complete: bool = False) -> None:
        """`error` is the attempt's machine word. Neither error nor complete: the caller left, or was refused."""
        if self._is_over:
            return
        self._is_over = True
        now_s, books = self._clock(), self._books
        books.in_flight.add(now_s, -1)
        self._judge(error, is_complete=is_complete, now_s=now_s)
        if books.drained_for is not None and not books.in_flight.count:
            self._on_recovery(Recovery(books.member.name, books.drained_for, now_s - books.drained_s))

    def _judge(self, error: str | None, *, is_complete: bool, now_s: float) -> None:
        books, counts = self._books, self._counts
        said = verdict(
            error,
            is_stream=self._is_stream,
            silent_s=now_s - self._heard_s,
            patience_s=self._patience_s,
        )
        if said in ("failed", "unreached"):
            counts.failed += 1
            books.vitals.note_outcome(is_error=True, now_s=now_s)
            books.breaker.note_failure(is_trial=self._decides, is_unreached=said == "unreached", now_s=now_s)
        elif said == "well" and is_complete:
            counts.answered += 1
            counts.duration_s_total += now_s - self._began_s
            books.vitals.note_outcome(is_error=False, now_s=now_s)
            books.finished.note(now_s, now_s - self._began_s)
        else:
            counts.abandoned += 1
            books.breaker.note_no_verdict(is_trial=self._decides)
