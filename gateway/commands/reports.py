"""The commands for what an Echogate reports and who may administer it: usage, audit log, admin keys, export, import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..settings.reading import Settings
from .admin import show, warn
from .admin_client import AdminClient, AdminError
from .terminal import AsJson, Config, fail, told_plainly

audit = typer.Typer(help="The log of what admins did.", no_args_is_help=True)
admin_keys = typer.Typer(help="Who may administer, and in which role.", no_args_is_help=True)

_KINDS = ("tenant", "service", "key")
_PAGE = 100


def usage(
    level: Annotated[str, typer.Option(help="tenant, service or key.")] = "tenant",
    name: Annotated[str | None, typer.Option(help="Of this one; without it, of all.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Needed with the name of a service.")] = None,
    bucket: Annotated[str, typer.Option(help="minute, hour or day.")] = "day",
    start: Annotated[str | None, typer.Option(help="Such as 2026-11-01T00:00:00Z.")] = None,
    end: Annotated[str | None, typer.Option(help="Likewise; without it, now.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what was used over time."""
    params = {"level": level, "name": name, "tenant": tenant, "bucket": bucket, "start": start, "end": end}
    with told_plainly():
        client = AdminClient(Settings.load(config))
        if as_csv:
            _print_csv(client, params)
            return
        rows = client.all("/admin/usage", params=params, page=_PAGE)
    heading = ("START", "TENANT", "NAME", "REQUESTS", "HITS", "LIMITED", "FAILED", "TOKENS IN", "OUT", "COST")
    show(rows, as_json, heading, _usage_row)


@audit.command("list")
def list_audit(
    after: Annotated[int, typer.Option(help="Of the records after this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what admins did, oldest first."""
    with told_plainly():
        params = {"after": after, "limit": limit}
        found = AdminClient(Settings.load(config)).ask("GET", "/admin/audit", params=params)["data"]
    heading = ("NUMBER", "WHEN", "WHO", "FROM", "WHAT", "TO WHAT", "OUTCOME")
    show(found, as_json, heading, _audit_row)


@audit.command("verify")
def verify_audit(
    full: Annotated[bool, typer.Option("--full", help="From the first record on.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Check that no record was deleted, edited or exchanged; exit with 1 if one was."""
    with told_plainly():
        report = AdminClient(Settings.load(config)).ask("GET", "/admin/audit/verify", params={"full": full})
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(f"{report['checked']} records checked, from {report['since'] + 1} to {report['last']}")
    if not report["is_intact"]:
        told = [problem["message"] for problem in report["problems"]]
        if not report["is_covered"]:
            told.append(
                f"it starts after record {report['starts_after']}, and nothing vouches for what was before"
            )
        fail("the audit log is not intact: " + "; ".join(told))


@admin_keys.command("create")
def create_admin_key(
    role: Annotated[str, typer.Option(help="owner, admin, operator or viewer.")],
    name: Annotated[str, typer.Option(help="A note for humans.")] = "",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make an admin key and print it; it is not shown again."""
    with told_plainly():
        body = {"role": role, "name": name}
        made = AdminClient(Settings.load(config)).ask("POST", "/admin/admin-keys", body)
    typer.echo(json.dumps(made) if as_json else made["key"])


@admin_keys.command("list")
def list_admin_keys(config: Config = None, as_json: AsJson = False) -> None:
    """Show all admin keys."""
    with told_plainly():
        found = AdminClient(Settings.load(config)).ask("GET", "/admin/admin-keys")["data"]
    show(found, as_json, ("ID", "ROLE", "STATE", "NAME"), _admin_key_row)


@admin_keys.command("disable")
def disable_admin_key(key_id: str, config: Config = None, as_json: AsJson = False) -> None:
    """Refuse an admin key, until it is enabled again."""
    _change(config, "POST", f"/admin/admin-keys/{key_id}/disable", f"disabled {key_id}", as_json)


@admin_keys.command("enable")
def enable_admin_key(key_id: str, config: Config = None, as_json: AsJson = False) -> None:
    """Let a disabled admin key work again."""
    _change(config, "POST", f"/admin/admin-keys/{key_id}/enable", f"enabled {key_id}", as_json)


@admin_keys.command("delete")
def delete_admin_key(key_id: str, config: Config = None, as_json: AsJson = False) -> None:
    """Refuse an admin key for good."""
    _change(config, "DELETE", f"/admin/admin-keys/{key_id}", f"deleted {key_id}", as_json)


def export_records(config: Config = None) -> None:
    """Print all tenants, services and keys, one JSON object a line; of secrets only hashes."""
    with told_plainly():
        client = AdminClient(Settings.load(config))
        for kind in _KINDS:
            for record in client.all("/admin/export", params={"kind": kind}):
                typer.echo(json.dumps(record))


def import_records(
    file: Annotated[Path, typer.Argument(help="What `echogate export` printed.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Add the records that are not there yet; keys go on working with their secrets."""
    with told_plainly():
        records = _read_lines(file)
        client = AdminClient(Settings.load(config))
        added = present = 0
        for start in range(0, len(records), 1000):
            answer = client.ask("POST", "/admin/import", {"records": records[start : start + 1000]})
            added, present = added + answer["added"], present + answer["present"]
    told = {"added": added, "present": present}
    typer.echo(json.dumps(told) if as_json else f"added {added}, {present} were there already")


def _read_lines(file: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise AdminError(f"cannot read {file}: {error}") from error


def _print_csv(client: AdminClient, params: dict[str, Any]) -> None:
    after: str | None = None
    is_first = True
    while True:
        wanted = {**params, "format": "csv", "limit": _PAGE, "after": after}
        page, after = client.text("/admin/usage", params=wanted)
        typer.echo(page if is_first else page.partition("\n")[2], nl=False)
        is_first = False
        if after is None:
            return


def _change(config: Config, method: str, path: str, done: str, as_json: bool) -> None:
    with told_plainly():
        answer = AdminClient(Settings.load(config)).ask(method, path)
    typer.echo(json.dumps(answer) if as_json else done)
    warn(answer)


def _usage_row(row: dict[str, Any]) -> tuple[str, ...]:
    hits = row["hits_exact"] + row["hits_semantic"]
    counts = (row["requests"], hits, row["limited"], row["failed"], row["input_tokens"], row["output_tokens"])
    start = row["start"][:16].replace("T", " ")
    return (start, row["tenant"], row["name"], *map(str, counts), f"{row['cost']:.6g}")


def _audit_row(row: dict[str, Any]) -> tuple[str, ...]:
    at = row["at"][:19].replace("T", " ")
    return (
        str(row["number"]), at, row["actor"], row["source_ip"] or "-", row["action"], row["target"], row["outcome"],
    )  # fmt: skip


def _admin_key_row(key: dict[str, Any]) -> tuple[str, ...]:
    return (key["id"], key["role"], "disabled" if key["disabled_at"] else "active", key["name"])
