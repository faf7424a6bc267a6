"""The command that shows how the workers of a host keep up with what all store, and how far another embedder is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient
from .terminal import AsJson, Config, told_plainly


def index(config: Config = None, as_json: AsJson = False) -> None:
    """Show how far behind each worker's index is, and how far embedding anew is."""
    with told_plainly():
        found = AdminClient(Settings.load(config)).ask("GET", "/admin/cache/index")
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in lines(found):
        typer.echo(line)


def lines(found: dict[str, Any]) -> Iterator[str]:
    for each in found["workers"]:
        yield f"worker {each['worker']}: {each['lag_s']:.1f} s and {each['items_behind']} changes behind"
    if not found["workers"]:
        yield "no worker has an index of similar questions"
    yield "made from the store: " + (_told(found["rebuilt"]) or "nothing")
    yield "snapshots: " + (_told(found["snapshots"]) or "none")
    anew = found["embedding_anew"]
    if any(anew.values()):
        yield (
            f"embedding anew: {anew['done']} done, {anew['left']} to look at, {anew['unfit']} unreadable, "
            f"{anew['settled']} old vectors let go"
        )


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
