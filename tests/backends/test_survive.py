"""What is a failure, who is avoided, and how long silence is borne."""

from __future__ import annotations

import asyncio
import time

import pytest

from backends.sse import Event
from backends.survive import Patience, failure_in_events, failure_in_status, may_retry, rest_asked


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_failures(status: int) -> None:
    assert failure_in_status(status) == "status"


@pytest.mark.parametrize("status", [200, 400, 401, 404, 408, 413, 422, 429, 501])
def test_answers_and_refusals_are_not(status: int) -> None:
    assert failure_in_status(status) is None


@pytest.mark.parametrize(
    ("first", "failure"),
    [
        (b"[DONE]", "empty-stream"),
        (b'{"error":{"message":"overloaded"}}', "error-frame"),
        (b'{"error":', "error-frame"),
        (b"null", "not-json"),
        (b"<html>", "not-json"),
        (b'{"choices":[{"delta":{"content":"an \\"error\\" in text"}}]}', None),
        (b'{"choices":[],"error":null}', None),
    ],
)
def test_a_stream_is_judged_by_its_first_event(first: bytes, failure: str | None) -> None:
    assert failure_in_events([Event(first)]) == failure


def test_a_stream_without_events_is_a_failure() -> None:
    assert failure_in_events([]) == "empty-stream"


def test_there_is_one_retry_if_someone_and_some_time_is_left() -> None:
    assert may_retry(1, has_untried=True, now_s=1.0, deadline_s=2.0)
    assert not may_retry(2, has_untried=True, now_s=1.0, deadline_s=2.0)
    assert not may_retry(1, has_untried=False, now_s=1.0, deadline_s=2.0)
    assert not may_retry(1, has_untried=True, now_s=2.0, deadline_s=2.0)


@pytest.mark.parametrize(
    ("status", "word", "seconds"),
    [
        (429, "7", 7.0),
        (503, "0.5", 0.5),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (429, "-1", None),
        (429, "nan", None),
        (200, "7", None),
    ],
)
def test_a_server_asks_for_rest_in_seconds(status: int, word: str, seconds: float | None) -> None:
    assert rest_asked(status, {"retry-after": word}) == seconds


async def gives_up_after(patience: Patience, gave_up: asyncio.Event) -> float:
    started_s = time.monotonic()
    patience.begin_wait()
    async with asyncio.timeout(5):
        await gave_up.wait()
    return time.monotonic() - started_s


def patience(*, limit_s: float, deadline_in_s: float = 60.0) -> tuple[Patience, asyncio.Event]:
    gave_up = asyncio.Event()
    deadline_s = time.monotonic() + deadline_in_s
    return Patience(limit_s=limit_s, reason="idle", deadline_s=deadline_s, give_up=gave_up.set), gave_up


async def test_silence_beyond_the_limit_ends_the_wait() -> None:
    patient, gave_up = patience(limit_s=0.05)
    assert 0.04 < await gives_up_after(patient, gave_up) < 1.0
    assert patient.gave_up == "idle"


async def test_a_new_wait_gets_the_whole_limit() -> None:
    patient, gave_up = patience(limit_s=0.1)
    patient.begin_wait()
    await asyncio.sleep(0.07)
    patient.end_wait()
    assert 0.09 < await gives_up_after(patient, gave_up) < 1.0


async def test_a_slow_reader_does_not_use_up_patience() -> None:
    patient, gave_up = patience(limit_s=0.02)
    patient.begin_wait()
    patient.end_wait()
    await asyncio.sleep(0.06)
    assert not gave_up.is_set()
    assert await gives_up_after(patient, gave_up) < 1.0


async def test_the_deadline_ends_a_wait_of_any_age() -> None:
    patient, gave_up = patience(limit_s=60.0, deadline_in_s=0.05)
    assert await gives_up_after(patient, gave_up) < 1.0
    assert patient.gave_up == "deadline"


async def test_a_shorter_limit_holds_at_once() -> None:
    patient, gave_up = patience(limit_s=60.0)
    patient.begin_wait()
    patient.end_wait()
    patient.allow(0.05, reason="idle")
    assert await gives_up_after(patient, gave_up) < 1.0
