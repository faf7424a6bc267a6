"""The tour itself: five questions by the official OpenAI SDK, what each must come out as, and what came out."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from openai import APIError, AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

ASKED = "How long is the flight from London to Tokyo?"
_PATIENCE_S = 120.0  # a small model on a busy machine


@dataclass(frozen=True, slots=True)
class Step:
    """`expected` is the reply's `x-cache`."""

    title: str
    question: str
    expected: str
    is_streamed: bool = False


# With the int8 model the paraphrase has a cosine of 0.977. The near-opposite has 0.995, more than that: what
# keeps it apart is the veto on exchanged roles.
STEPS = (
    Step("a new question", ASKED, "MISS"),
    Step("the same again", ASKED, "HIT-EXACT"),
    Step("in other words", "How long does the flight from London to Tokyo take?", "HIT-SEMANTIC"),
    Step("close in words, but another question", "How long is the flight from Tokyo to London?", "MISS"),
    Step("the first one again, as a stream", ASKED, "HIT-EXACT", is_streamed=True),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back. Times are wall-clock, from the SDK's call to the last piece of the answer."""

    step: Step
    answer: str
    took_s: float
    headers: dict[str, str]

    @property
    def outcome(self) -> str:
        return self.headers.get("x-cache", "no x-cache header")

    @property
    def is_hit(self) -> bool:
        return self.outcome.startswith("HIT")

    @property
    def trace_id(self) -> str:
        return self.headers.get("x-trace-id", "")


class TourError(Exception):
    """A step got an error instead of an answer."""


async def walk(base_url: str, key: str, model: str) -> AsyncIterator[Seen]:
    """Ask one question after the other. Raises TourError."""
    async with AsyncOpenAI(base_url=base_url, api_key=key, timeout=_PATIENCE_S, max_retries=0) as client:
        try:
            await client.models.list()  # so that the first step's time is not that of the SDK's first call
            for step in STEPS:
                yield await _ask(client, model, step)
        except APIError as error:
            raise TourError(f"the gateway answered with an error: {error}") from error


def problems(seen: list[Seen]) -> list[str]:
    """What did not come out as the tour says; empty if all did."""
    found = [
        f"“{one.step.title}” came out as {one.outcome}{_because(one)}, expected {one.step.expected}"
        for one in seen
        if one.outcome != one.step.expected
    ]
    found += [
        f"“{one.step.title}” is a hit with another answer than the first"
        for one in seen
        if one.is_hit and one.answer != seen[0].answer
    ]
    if len(seen) < len(STEPS):
        found.append(f"only {len(seen)} of {len(STEPS)} steps were taken")
    return found


async def _ask(client: AsyncOpenAI, model: str, step: Step) -> Seen:
    started = time.monotonic()
    create = client.chat.completions.with_raw_response.create
    question: ChatCompletionUserMessageParam = {"role": "user", "content": step.question}
    headers: Mapping[str, str]
    if step.is_streamed:
        stream = await create(model=model, temperature=0, messages=[question], stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream.parse() if chunk.choices]
        answer, headers = "".join(pieces), stream.headers
    else:
        whole = await create(model=model, temperature=0, messages=[question])
        answer, headers = whole.parse().choices[0].message.content or "", whole.headers
    took_s = time.monotonic() - started
    return Seen(step, answer, took_s, {name.lower(): value for name, value in headers.items()})


def _because(seen: Seen) -> str:
    reason = seen.headers.get("x-cache-reason")
    return f" ({reason})" if reason else ""
