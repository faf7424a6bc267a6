"""Owns the one thread that embeds and searches, and decides what may enter its queue.

A lookup's text is embedded and its vector searched in one visit to the thread, so a semantic lookup hops off
the loop and back once. An embedder that takes many texts at once gets all that wait. Work enters only if what is
queued before it, at the measured cost, leaves it time before its deadline; work whose caller left or whose
deadline passed is skipped, not done.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import EmbedderBusy, UnfitText
from ..index.neighbours import Neighbours
from ..interfaces import Batching, Embedder
from ..model import Vector
from ..vectors import UnusableVector, to_unit

Search = Callable[[Vector], Neighbours]
T = TypeVar("T")

_CHARACTERS_PER_TOKEN = 4
_FIRST_GUESS_S = 0.0002  # a token, until measured
_LEAST_TOKENS = 8  # short texts cost a fixed part, about that of so many tokens
_MOST_TOKENS = 512  # a longer text is refused by the embedder, which is quick
_NEWEST_WEIGHT = 0.1
_BACKGROUND_BOUND = 256


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector, what was found near it, and when (monotonic seconds)."""

    vector: Vector
    neighbours: Neighbours
    started_s: float
    embedded_s: float
    ended_s: float


@dataclass(slots=True)
class _Work:
    text: str = field(repr=False)
    tokens: int
    deadline: float
    search: Search | None
    result: asyncio.Future[Embedded]


class NoEmbedder:
    """Stands where an embedder would, when no model is prepared: every text is matched exactly only."""

    skip_reason: str | None = "no-embedder"
    fingerprint = "none"

    async def embed(
        self, text: str, *, deadline: float, search: Search | None = None, is_background: bool = False
    ) -> Embedded:
        raise UnfitText("no-embedder")

    def close(self) -> None:
        """Nothing was opened."""


class EmbedQueue:
    """Takes over the embedder: `close` ends the thread and closes it."""

    skip_reason: str | None = None

    def __init__(self, embedder: Embedder, *, now: Callable[[], float] = time.monotonic) -> None:
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self._embedder = embedder
        self._at_once = embedder.most_at_once if isinstance(embedder, Batching) else 1
        self._now = now
        self._awake = threading.Condition()
        self._urgent: deque[_Work] = deque()
        self._background: deque[_Work] = deque()
        self._tokens_ahead = 0  # of urgent work queued or being done
        self._token_cost_s = _FIRST_GUESS_S
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="embed", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return (
            f"EmbedQueue({len(self._urgent)} urgent, {len(self._background)} background, "
            f"{self._token_cost_s * 1e6:.0f} us a token)"
        )

    async def embed(
        self, text: str, *, deadline: float, search: Search | None = None, is_background: bool = False
    ) -> Embedded:
        """Embed, then search if given, off the loop.

        Raises `EmbedderBusy` if it would not be done by the deadline or was not, `UnfitText` if the embedder
        cannot read the text, and whatever else the embedder raises. Background work waits for all other.
        """
        loop = asyncio.get_running_loop()
        tokens = min(max(_LEAST_TOKENS, len(text) // _CHARACTERS_PER_TOKEN), _MOST_TOKENS)
        work = _Work(text, tokens, deadline, search, loop.create_future())
        self._admit(work, is_background=is_background)
        try:
            async with asyncio.timeout(deadline - self._now()):
                return await work.result
        except TimeoutError as error:
            raise EmbedderBusy("the embedder did not get to this text in time") from error

    def close(self) -> None:
        """Waits for the text being embedded, drops the rest."""
        with self._awake:
            self._is_closed = True
            self._awake.notify()
        self._thread.join()
        self._embedder.close()

    def _admit(self, work: _Work, *, is_background: bool) -> None:
        with self._awake:
            if self._is_closed:
                raise EmbedderBusy("the embedder is closed")
            if is_background:
                if len(self._background) >= _BACKGROUND_BOUND:
                    raise EmbedderBusy("too many texts wait to be embedded")
                self._background.append(work)
                self._awake.notify()
                return
            needed_s = (self._tokens_ahead + work.tokens) * self._token_cost_s
            # An empty queue takes any text: one slow moment must not close the door for good, since only
            # work that is done measures again.
            if self._tokens_ahead and self._now() + needed_s > work.deadline:
                raise EmbedderBusy(f"{self._tokens_ahead} tokens are queued")
            self._tokens_ahead += work.tokens
            self._urgent.append(work)
            self._awake.notify()

    def _run(self) -> None:
        while True:
            with self._awake:
                while not (self._urgent or self._background or self._is_closed):
                    self._awake.wait()
                if self._is_closed:
                    for each in (*self._urgent, *self._background):
                        _settle(each.result, EmbedderBusy("the embedder is closed"))
                    return
                is_urgent = bool(self._urgent)
                queue = self._urgent if is_urgent else self._background
                works = [queue.popleft() for _ in range(min(self._at_once, len(queue)))]
            try:
                self._do(works)
            finally:
                if is_urgent:
                    with self._awake:
                        self._tokens_ahead -= sum(work.tokens for work in works)

    def _do(self, works: list[_Work]) -> None:
        started = self._now()
        wanted = []
        for work in works:
            # Done already: the caller left or timed out. Asked from this thread, the answer may be a moment old.
            if work.result.done() or started > work.deadline:
                _settle(work.result, EmbedderBusy("the embedder did not get to this text in time"))
            else:
                wanted.append(work)
        if not wanted:
            return
        outcomes = self._embedded([work.text for work in wanted])
        embedded = self._now()
        if any(not isinstance(outcome, Exception) for outcome in outcomes):
            self._measure(sum(work.tokens for work in wanted), embedded - started)
        for work, outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome, Exception):
                _settle(work.result, outcome)
                continue
            vector = outcome
            begun = self._now()
            neighbours = _tried(lambda: Neighbours() if work.search is None else work.search(vector))  # noqa: B023 - at once
            if isinstance(neighbours, Exception):
                _settle(work.result, neighbours)
            else:
                _settle(work.result, Embedded(vector, neighbours, started, begun, self._now()))

    def _embedded(self, texts: Sequence[str]) -> list[Vector | Exception]:
        """Whatever an embedder raises or returns, the thread must live on; the caller gets the error."""
        embedder = self._embedder
        if len(texts) > 1 and isinstance(embedder, Batching):
            raw = _tried(lambda: embedder.embed_many(texts))
            found = [raw] * len(texts) if isinstance(raw, Exception) else raw
        else:
            found = [_tried(lambda: embedder.embed(text)) for text in texts]  # noqa: B023
        return [self._checked(each) for each in found]

    def _checked(self, raw: Vector | Exception) -> Vector | Exception:
        if isinstance(raw, UnusableVector):
            return UnfitText("unusable-vector")
        if isinstance(raw, Exception):
            return raw
        try:
            return to_unit(raw, dimension=self._embedder.dimension)
        except UnusableVector:
            return UnfitText("unusable-vector")

    def _measure(self, tokens: int, seconds: float) -> None:
        self._token_cost_s += _NEWEST_WEIGHT * (seconds / tokens - self._token_cost_s)


def _tried(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:  # the boundary of a thread: it is delivered to whoever waits
        return error


def _settle(result: asyncio.Future[Any], outcome: object) -> None:
    """From the thread."""

    def settle() -> None:
        if result.done():
            return
        if isinstance(outcome, Exception):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    try:
        result.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more
