"""The commands for tenants, services and keys of a running Echogate, through its admin API."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient
from .arguments import moment_after, pair, read_values, seconds
from .terminal import AsJson, Config, fail, print_table, told_plainly

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="As in the admin API, such as limits.tokens_per_min=100000, policy.models='[\"m1\"]', "
        "metadata.team=search; null takes a value away. May be given several times.",
    ),
]
Tenant = Annotated[str, typer.Option(help="Whom it belongs to.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Of this tenant only.")]
KeyId = Annotated[str, typer.Argument(help="The key's id, the part after eg-.")]
Name = Annotated[str, typer.Argument(help="Its name.")]
OfService = Annotated[str, typer.Argument(metavar="TENANT/NAME", help="The tenant's and the service's name.")]
ExpiresIn = Annotated[str | None, typer.Option(help="How long it works, such as 12h or 90d.")]

tenants = typer.Typer(help="Tenants of a running Echogate.", no_args_is_help=True)
services = typer.Typer(help="Services of tenants.", no_args_is_help=True)
keys = typer.Typer(help="Keys of a running Echogate.", no_args_is_help=True)


@keys.command("create")
def create_key(
    tenant: Tenant,
    service: Annotated[str, typer.Option(help="Which of the tenant's services uses it.")] = "default",
    name: Annotated[str, typer.Option(help="A note for humans.")] = "",
    requests_per_s: Annotated[float | None, typer.Option(help="On average, 10 to 5000.")] = None,
    burst: Annotated[int | None, typer.Option(help="Requests at once.")] = None,
    expires_in: ExpiresIn = None,
    values: Set = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it; it is not shown again."""
    with told_plainly():
        body = {"tenant": tenant, "service": service, "name": name, **read_values(values)}
        limits = {"requests_per_s": requests_per_s, "burst": burst}
        if said := {limit: value for limit, value in limits.items() if value is not None}:
            body["limits"] = {**body.get("limits", {}), **said}
        if expires_in is not None:
            body["expires_at"] = moment_after(expires_in)
        made = AdminClient(Settings.load(config)).ask("POST", "/admin/keys", body)
    typer.echo(json.dumps(made) if as_json else made["key"])


@keys.command("list")
def list_keys(
    tenant: OfTenant = None,
    service: Annotated[str | None, typer.Option(help="Of this service; needs --tenant.")] = None,
    state: Annotated[str | None, typer.Option(help="active, disabled or expired.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show keys, newest first, those that work no more too."""
    with told_plainly():
        params = {"tenant": tenant, "service": service, "state": state}
        found = AdminClient(Settings.load(config)).all("/admin/keys", params=params)
    heading = ("ID", "TENANT", "SERVICE", "STATE", "LIMITS", "LAST USED", "NAME")
    show(found, as_json, heading, _key_row)


@keys.command("get")
def get_key(key_id: KeyId, config: Config = None, as_json: AsJson = False) -> None:
    """Print all that is known of a key."""
    _print_answer(config, f"/admin/keys/{_quoted(key_id)}", as_json)


@keys.command("update")
def update_key(
    key_id: KeyId,
    values: Set = None,
    expires_in: ExpiresIn = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Change what a key may do; what is not named stays."""
    with told_plainly():
        body = read_values(values)
        if expires_in is not None:
            body["expires_at"] = moment_after(expires_in)
    _change(config, "PATCH", f"/admin/keys/{_quoted(key_id)}", f"updated {key_id}", as_json, body)


@keys.command("rotate")
def rotate_key(
    key_id: KeyId,
    grace: Annotated[
        str, typer.Option(help="How long the old secret goes on working, such as 0s or 1d.")
    ] = "1d",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Give a key a new secret and print it; it is not shown again."""
    with told_plainly():
        body = {"grace_s": seconds(grace)}
        path = f"/admin/keys/{_quoted(key_id)}/rotate"
        made = AdminClient(Settings.load(config)).ask("POST", path, body)
    typer.echo(json.dumps(made) if as_json else made["key"])
    warn(made)


@keys.command("disable")
def disable_key(key_id: KeyId, config: Config = None, as_json: AsJson = False) -> None:
    """Refuse a key everywhere, until it is enabled again."""
    _change(config, "POST", f"/admin/keys/{_quoted(key_id)}/disable", f"disabled {key_id}", as_json)


@keys.command("enable")
def enable_key(key_id: KeyId, config: Config = None, as_json: AsJson = False) -> None:
    """Let a disabled key work again."""
    _change(config, "POST", f"/admin/keys/{_quoted(key_id)}/enable", f"enabled {key_id}", as_json)


@keys.command("delete")
def delete_key(key_id: KeyId, config: Config = None, as_json: AsJson = False) -> None:
    """Refuse a key everywhere, for good."""
    _change(config, "DELETE", f"/admin/keys/{_quoted(key_id)}", f"deleted {key_id}", as_json)


@tenants.command("create")
def create_tenant(name: Name, values: Set = None, config: Config = None, as_json: AsJson = False) -> None:
    """Make a tenant. (A key or a service makes its tenant by itself.)"""
    with told_plainly():
        body = {"name": name, **read_values(values)}
    _change(config, "POST", "/admin/tenants", f"created {name}", as_json, body)


@tenants.command("list")
def list_tenants(config: Config = None, as_json: AsJson = False) -> None:
    """Show tenants by name."""
    with told_plainly():
        found = AdminClient(Settings.load(config)).all("/admin/tenants")
    show(
        found,
        as_json,
        ("NAME", "STATE", "LIMITS"),
        lambda each: (each["name"], _state(each), limits_of(each)),
    )


@services.command("create")
def create_service(
    path: OfService, values: Set = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Make a service. (A key makes its service by itself.)"""
    with told_plainly():
        tenant, name = pair(path)
        body = {"tenant": tenant, "name": name, **read_values(values)}
    _change(config, "POST", "/admin/services", f"created {path}", as_json, body)


@services.command("list")
def list_services(tenant: OfTenant = None, config: Config = None, as_json: AsJson = False) -> None:
    """Show services by tenant and name."""
    with told_plainly():
        found = AdminClient(Settings.load(config)).all("/admin/services", params={"tenant": tenant})
    heading = ("TENANT", "NAME", "STATE", "LIMITS")
    show(found, as_json, heading, lambda each: (each["tenant"], each["name"], _state(each), limits_of(each)))


def _add_commands(group: typer.Typer, kind: str, argument: Any, where: Callable[[str], str]) -> None:
    """What tenants and services have alike."""

    @group.command("get", help=f"Print all that is known of a {kind}.")
    def get(name: str = argument, config: Config = None, as_json: AsJson = False) -> None:
        _print_answer(config, where(name), as_json)

    @group.command("update", help=f"Change a {kind}, for all its keys; what is not named stays.")
    def update(
        name: str = argument, values: Set = None, config: Config = None, as_json: AsJson = False
    ) -> None:
        with told_plainly():
            body = read_values(values)
        _change(config, "PATCH", where(name), f"updated {name}", as_json, body)

    @group.command("disable", help=f"Refuse all keys of a {kind}, until it is enabled again.")
    def disable(name: str = argument, config: Config = None, as_json: AsJson = False) -> None:
        _change(config, "POST", f"{where(name)}/disable", f"disabled {name}", as_json)

    @group.command("enable", help=f"Let the keys of a disabled {kind} work again.")
    def enable(name: str = argument, config: Config = None, as_json: AsJson = False) -> None:
        _change(config, "POST", f"{where(name)}/enable", f"enabled {name}", as_json)

    @group.command("delete", help=f"Delete a {kind} that nothing belongs to any more.")
    def delete(name: str = argument, config: Config = None, as_json: AsJson = False) -> None:
        _change(config, "DELETE", where(name), f"deleted {name}", as_json)


def show(
    found: list[dict[str, Any]],
    as_json: bool,
    heading: tuple[str, ...],
    row: Callable[[dict[str, Any]], Sequence[str]],
) -> None:
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_table([heading, *map(row, found)])


def limits_of(each: dict[str, Any]) -> str:
    """In few words."""
    said = {name: value for name, value in each["limits"].items() if value is not None}
    if (budget := said.pop("budget", None)) is not None:
        said["budget"] = f"{budget['amount']:g} {budget['unit']}/{budget['period']}"
    return " ".join(f"{name}={value:g}" if name != "budget" else value for name, value in said.items()) or "-"


def warn(answer: dict[str, Any]) -> None:
    """Of a change that is not in force everywhere, or not safe."""
    change = answer.get("change")
    if change is None:
        return
    if not change["replicated"]:
        typer.echo("warning: no replica of the store has confirmed it yet", err=True)
    if late := change["not_acknowledged_by"]:
        fail(f"workers {', '.join(map(str, late))} have not confirmed it yet; they follow within seconds")


def _change(
    config: Config, method: str, path: str, done: str, as_json: bool, body: dict[str, Any] | None = None
) -> None:
    with told_plainly():
        answer = AdminClient(Settings.load(config)).ask(method, path, body)
    typer.echo(json.dumps(answer) if as_json else done)
    warn(answer)


def _print_answer(config: Config, path: str, as_json: bool) -> None:
    """Line by line for people, as one line for scripts."""
    with told_plainly():
        answer = AdminClient(Settings.load(config)).ask("GET", path)
    typer.echo(json.dumps(answer, indent=None if as_json else 2))


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _service_path(path: str) -> str:
    with told_plainly():
        tenant, name = pair(path)
    return f"/admin/services/{_quoted(tenant)}/{_quoted(name)}"


def _state(each: dict[str, Any]) -> str:
    return "disabled" if each["disabled_at"] else "active"


def _key_row(key: dict[str, Any]) -> tuple[str, ...]:
    used = (key["last_used_at"] or "never")[:16].replace("T", " ")
    return (key["id"], key["tenant"], key["service"], key["state"], limits_of(key), used, key["name"])


_add_commands(
    tenants, "tenant", typer.Argument(help="Its name."), lambda name: f"/admin/tenants/{_quoted(name)}"
)
_add_commands(services, "service", typer.Argument(metavar="TENANT/NAME"), _service_path)
