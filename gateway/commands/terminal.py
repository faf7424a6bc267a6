"""Decides how the commands speak: results to stdout, an error as one sentence to stderr, and exit status 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..embedded import StoreProcessError
from ..host.bootstrap import BootstrapError
from ..host.data_folder import DataFolderError
from ..host.fleet import StartFailed
from ..host.serving import BindError
from ..settings.errors import SettingsError
from .admin_client import AdminError

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="ECHOGATE_CONFIG", help="The YAML file; without it, defaults."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def told_plainly() -> Iterator[None]:
    """Errors that the person at the terminal can do something about are told without a stack."""
    try:
        yield
    except (
        SettingsError,
        DataFolderError,
        BindError,
        StoreProcessError,
        BootstrapError,
        StartFailed,
        AdminError,
    ) as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The first row is the heading."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
