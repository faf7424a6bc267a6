"""The commands for the backends of a running Echogate: how they stand, drains, what admins changed, what is short."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ..settings.reading import Settings
from .admin import show
from .admin_client import AdminClient
from .terminal import AsJson, Config, fail, told_plainly

backends = typer.Typer(help="The model servers of a running Echogate.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The backend's name, as `backends list` shows it.")]


@backends.command("list")
def list_backends(
    model: Annotated[str | None, typer.Option(help="Of this pool only.")] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show how pools differ from the configuration.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show how the backends stand."""
    if diff:
        show_diff(config, as_json)
        return
    found = _ask(config, "GET", "/admin/backends", params={"model": model})["data"]
    heading = ("NAME", "MODEL", "REVISION", "STATE", "IN FLIGHT", "RUNNING", "WAITING", "KV", "BREAKERS OPEN")
    show(found, as_json, heading, _row)


@backends.command("diff")
def show_diff(config: Config = None, as_json: AsJson = False) -> None:
    """Show how pools differ from the configuration by what admins changed."""
    found = _ask(config, "GET", "/admin/backends/diff")["data"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    for pool in found:
        typer.echo(f"{pool['model']}:")
        for line in pool["differences"]:
            typer.echo(f"  {line}")
    if not found:
        typer.echo("all pools are as configured")


@backends.command("drain")
def drain(name: Name, config: Config = None, as_json: AsJson = False) -> None:
    """Send no new requests there; those it has may finish."""
    _changed(_ask(config, "POST", f"/admin/backends/{name}/drain", {}), as_json, f"draining {name}")


@backends.command("undrain")
def undrain(name: Name, config: Config = None, as_json: AsJson = False) -> None:
    """Take it into service again."""
    _changed(_ask(config, "POST", f"/admin/backends/{name}/undrain"), as_json, f"{name} is in service again")


@backends.command("reset")
def reset(
    model: Annotated[str | None, typer.Option(help="This pool only.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Forget what admins changed: back to the configuration."""
    changes = _ask(config, "POST", "/admin/backends/reset", {"model": model})
    if as_json:
        typer.echo(json.dumps(changes))
    else:
        typer.echo(f"{len(changes)} pools reset")
    for change in changes:
        _warn_of_late(change)


def diagnose(config: Config = None, as_json: AsJson = False) -> None:
    """Say what the model servers are short of, and which of their flags to turn."""
    found = _ask(config, "GET", "/admin/backends/findings")
    if as_json:
        typer.echo(json.dumps(found))
        return
    for finding in found["data"]:
        typer.echo(f"{finding['backend']}: {finding['shortage']}: {finding['evidence']}")
        typer.echo(f"  {finding['advice']}")
    if not found["heard"]:
        typer.echo("no backend has said anything of itself yet")
    elif not found["data"]:
        typer.echo(f"nothing is short at {', '.join(found['heard'])}")


def _ask(config: Any, method: str, path: str, body: Any = None, *, params: Any = None) -> Any:
    with told_plainly():
        return AdminClient(Settings.load(config)).ask(method, path, body, params=params)


def _changed(change: dict[str, Any], as_json: bool, sentence: str) -> None:
    typer.echo(json.dumps(change) if as_json else sentence)
    _warn_of_late(change)


def _warn_of_late(change: dict[str, Any]) -> None:
    if late := change["not_acknowledged_by"]:
        fail(f"workers {', '.join(map(str, late))} have not confirmed it yet; they follow when they can")


def _row(backend: dict[str, Any]) -> tuple[str, ...]:
    said = backend["signals"] or {}
    breakers = sum(worker["breaker"] != "closed" for worker in backend["workers"])
    state = (
        backend["state"]
        if backend["drained_for"] is None
        else f"{backend['state']} ({backend['drained_for']})"
    )
    kv = said.get("kv_usage")
    return (
        backend["name"],
        backend["model"],
        backend["revision"],
        state if backend["is_usable"] or backend["drained_for"] else f"{state}, not usable",
        str(backend["in_flight"]),
        _count(said.get("running")),
        _count(said.get("waiting")),
        "-" if kv is None else f"{kv:.0%}",
        str(breakers),
    )


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
