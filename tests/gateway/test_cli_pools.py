"""The commands for backends: what they print, and with which exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from gateway.commands.main import app

from .serving import Serving, serving


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    with serving(pools={"m1": ["http://127.0.0.1:9", "http://127.0.0.1:10"]}) as running:
        yield running


def told(running: Serving, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments, "--config", str(running.config)])
    assert done.exit_code == status, done.output
    return done.output


def test_a_drain_is_made_shown_and_forgotten(running: Serving) -> None:
    assert told(running, "backends", "diff") == "all pools are as configured\n"
    assert told(running, "backends", "drain", "m1-1") == "draining m1-1\n"
    assert told(running, "backends", "diff") == "m1:\n  ~ m1-1 drained (admin)\n"
    assert told(running, "backends", "list", "--diff") == told(running, "backends", "diff")
    assert told(running, "backends", "undrain", "m1-1") == "m1-1 is in service again\n"
    told(running, "backends", "drain", "m1-2")
    assert told(running, "backends", "reset") == "1 pools reset\n"
    assert json.loads(told(running, "backends", "diff", "--json")) == []


def test_a_backend_that_is_not_there_is_an_error(running: Serving) -> None:
    assert told(running, "backends", "drain", "x", status=1) == "error: There is no backend named 'x'.\n"


def test_backends_are_a_table(running: Serving) -> None:
    assert told(running, "backends", "list").startswith("NAME  MODEL  REVISION  STATE")


def test_what_is_short_is_told(running: Serving) -> None:
    assert "data" in json.loads(told(running, "diagnose", "--json"))
