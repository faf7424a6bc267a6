"""Tells an answer that is whole already, in the form that was asked for: at once, or about as fast as it was made."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Sequence

from cache import Answer

from .call import Call
from .data.wire import Reply, Request, departure
from .dialects.dialect import Fresh, Manner
from .flight import ClientLeft

# Nobody waits longer for what is there; the request's own deadline may be nearer still.
_LONGEST_S = 30.0
_SPARE_S = 0.5
_TICK_S = 0.02
_MOST_PIECES = 1_000
_AT_ONCE = 100
_LONG = 10_000  # characters
_word: Callable[[str], list[str]] = re.compile(r"\s*\S{1,12}|\s+").findall


async def tell(payload: bytes, call: Call, reply: Reply) -> None:
    """At once."""
    wish, fresh = call.wish, Fresh.made(now_s=time.time(), echo=call.echo)
    if wish.wants_stream:
        await reply.start_stream()
        manner = Manner(wish.include_usage, wish.wants_running_usage)
        await reply.end(call.dialect.as_stream(payload, fresh, manner))
    else:
        await reply.whole(200, call.dialect.as_json(payload, fresh))


async def retell(answer: Answer, call: Call, request: Request, reply: Reply) -> None:
    """A stored answer. Raises ClientLeft if it takes its time over it."""
    took_ms = answer.origin.get("took_ms")
    if call.wish.wants_stream and call.controls.replay == "natural" and took_ms is not None:
        await _in_time(answer.payload, call, request, reply, took_s=float(took_ms) / 1000)
    else:
        await tell(answer.payload, call, reply)


async def _in_time(payload: bytes, call: Call, request: Request, reply: Reply, *, took_s: float) -> None:
    """As a stream of words, over as long as it took to make."""
    wish, fresh = call.wish, Fresh.made(now_s=time.time(), echo=call.echo)
    manner = Manner(wish.include_usage, wish.wants_running_usage, in_words)
    frames: list[bytes] = []
    for frame in call.dialect.as_stream(payload, fresh, manner):
        frames.append(frame)
        if len(frames) % _AT_ONCE == 0:
            await asyncio.sleep(0)  # others want the loop, too
    left_s = call.route.deadline_s - time.monotonic() - _SPARE_S
    gone = asyncio.Event()
    await reply.start_stream()
    async with departure(request, gone.set):
        await _paced(frames, reply, gone, over_s=min(took_s, _LONGEST_S, left_s))
    await reply.end()


def in_words(text: str) -> list[str]:
    """Words with the space before them, parts of them in a text without spaces; as many even pieces of a long text."""
    if len(text) <= _LONG:
        return _word(text)
    size = math.ceil(len(text) / _MOST_PIECES)
    return [text[at : at + size] for at in range(0, len(text), size)]


async def _paced(frames: Sequence[bytes], reply: Reply, gone: asyncio.Event, *, over_s: float) -> None:
    began, count, sent = time.monotonic(), len(frames), 0
    while True:
        elapsed_s = time.monotonic() - began
        due = count if elapsed_s >= over_s else max(sent, int(count * elapsed_s / over_s)) + 1
        await reply.events(frames[sent:due])
        sent = due
        if sent >= count:
            return
        next_s = began + over_s * sent / count - time.monotonic()
        try:
            await asyncio.wait_for(gone.wait(), max(next_s, _TICK_S))
        except TimeoutError:
            continue
        raise ClientLeft
