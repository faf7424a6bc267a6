"""The commands that take entries of the cache out of one deployment and into another, as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, Annotated, Any

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient, AdminError
from .cache_chosen import choosing
from .cache_entries import pages, progress_bar
from .terminal import AsJson, Config, fail, told_plainly

_LINES, _BYTES, _IDS = 200, 4 << 20, 1_000  # in one request


@choosing
def export(
    chosen: dict[str, Any],
    path: Annotated[str, typer.Argument(metavar="FILE", help="To be made; - is the output.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Write entries into a file, with what was asked and answered: for owners, where admin.shows_texts is set."""
    count, too_large = 0, 0
    with told_plainly():
        found = export_pages(AdminClient(Settings.load(config)), dict(chosen))
        first = next(found)  # before a file is made: it may be refused
        with _made(path) as file, progress_bar("taking out") as tell:
            for page in chain([first], found):
                file.writelines(line + "\n" for line in page["lines"])
                count, too_large = count + len(page["lines"]), too_large + page["too_large"]
                tell(page["progress"])
    said = {"entries": count, "too_large": too_large}
    told = json.dumps(said) if as_json else f"{count} entries; {too_large} were too large to be taken out"
    typer.echo(told, err=path == "-")


def take_in(
    file: Annotated[
        typer.FileText,
        typer.Argument(metavar="FILE", encoding="utf-8", help="As export made it; - is the input."),
    ],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Take entries in; they replace what there is of the same questions. Exit with 1 if a line is no entry."""
    outcomes: Counter[str] = Counter()
    refused: list[dict[str, Any]] = []
    before = 0
    with told_plainly():
        client = AdminClient(Settings.load(config))
        for lines in _batches(file):
            while lines:
                done = client.ask("POST", "/admin/cache/import", {"lines": lines})
                outcomes.update(done["outcomes"])
                refused += [{**each, "line": each["line"] + before} for each in done["refused"]]
                before += done["taken"]
                del lines[: done["taken"]]
    if as_json:
        typer.echo(json.dumps({"outcomes": dict(sorted(outcomes.items())), "refused": refused}))
    else:
        typer.echo(", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())) or "nothing")
    if refused:
        fail("; ".join(f"line {each['line']} is no entry: {each['reason']}" for each in refused[:10]))


def export_pages(client: AdminClient, wish: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each followed by what did not fit into it."""
    for page in pages(client, "/admin/cache/export", wish):
        yield page
        left = page["pending"]
        while left:
            some, left = left[:_IDS], left[_IDS:]
            for rest in pages(client, "/admin/cache/export", {"ids": some}):
                left += rest["pending"]
                yield {**rest, "progress": page["progress"]}


@contextmanager
def _made(path: str) -> Iterator[IO[str]]:
    """For its owner alone, as it holds what people asked. Raises AdminError where there is one."""
    if path == "-":
        yield sys.stdout
        return
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise AdminError(f"{path} cannot be made: {error.strerror}") from error
    with open(opened, "w", encoding="utf-8") as file:
        yield file


def _batches(file: Iterable[str]) -> Iterator[list[str]]:
    lines: list[str] = []
    size = 0
    for line in file:
        if lines and (len(lines) == _LINES or size + len(line) > _BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line.rstrip("\n"))
        size += len(line)
    if lines:
        yield lines
