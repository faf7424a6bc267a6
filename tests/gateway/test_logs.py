"""Log lines are JSON, one a line, and tell of an exception where it was and not what it quoted."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import msgspec
import pytest
import structlog

from gateway.telemetry import logs


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, write_through=True))
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    logs.configure(worker=3)
    yield written
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def test_our_lines_name_the_worker(stderr: io.BytesIO) -> None:
    structlog.get_logger("gateway.test").info("something happened", count=2)
    line = msgspec.json.decode(stderr.getvalue())
    assert (line["event"], line["count"], line["worker"], line["level"]) == (
        "something happened",
        2,
        3,
        "info",
    )


def test_lines_of_libraries_have_the_same_form(stderr: io.BytesIO) -> None:
    logging.getLogger("uvicorn.error").warning("a %s", "warning")
    line = msgspec.json.decode(stderr.getvalue())
    assert (line["event"], line["logger"], line["level"]) == ("a warning", "uvicorn.error", "warning")


@pytest.mark.parametrize(
    "logger", [structlog.get_logger("ours"), logging.getLogger("theirs")], ids=["ours", "theirs"]
)
def test_the_text_of_an_exception_is_not_told(stderr: io.BytesIO, logger: logging.Logger) -> None:
    try:
        raise ValueError("the prompt")
    except ValueError:
        logger.exception("it failed")
    assert msgspec.json.decode(stderr.getvalue())["exception"] == "ValueError"
    assert b"the prompt" not in stderr.getvalue()
