"""The command that shows how the cache of a running Echogate does: standing, hits, savings, and why others missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..settings.reading import Settings
from .admin import show
from .admin_client import AdminClient
from .terminal import AsJson, Config, told_plainly

_HEADING = (
    "TENANT", "NAMESPACE", "MODEL", "MODE", "POLICY", "STATE", "F", "BUDGET", "AUDITS", "JUDGE", "REQUESTS", "HITS",
    "SAVED TOKENS", "SECONDS", "MONEY", "REPORTED",
)  # fmt: skip


def report(
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    days: Annotated[int, typer.Option(min=1, max=31, help="Of requests, hits and savings.")] = 7,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show how each namespace stands, F as judged by whom, what hits saved, and what was served most and refused."""
    with told_plainly():
        client = AdminClient(Settings.load(config))
        found = client.ask("GET", "/admin/cache/report", params={"tenant": tenant, "days": days})["data"]
    show(found, as_json, _HEADING, _row)
    if not as_json:
        for line in (line for each in found for line in _most(each)):
            typer.echo(line)


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    f, saved = each["f"], each["saved"]
    share = "-" if f["share"] is None else f"{f['share']:.1%} ({f['low']:.1%} to {f['high']:.1%})"
    borrowed = ", borrowed" if each["evidence"] == "borrowed" else ""
    hits = "-" if each["hit_share"] is None else f"{each['hits']} ({each['hit_share']:.1%})"
    return (
        each["tenant"], each["namespace"], each["model"], each["mode"], each["policy"],
        f"{each['state']} ({each['reason']}{borrowed})", share, f"{each['budget']:.1%}", str(f["audits"]), _judges(f),
        str(each["requests"]), hits, str(saved["input_tokens"] + saved["output_tokens"]),
        f"{saved['seconds']:.1f}", f"{saved['cost']:.6g}", str(each["reported_wrong"]),
    )  # fmt: skip


def _judges(f: dict[str, Any]) -> str:
    if not f["judged_by"]:
        return "-"
    return f"{', '.join(f['judged_by'])} ({'corrected' if f['is_corrected'] else 'uncorrected'})"


def _most(each: dict[str, Any]) -> Iterator[str]:
    name = f"{each['tenant']}/{each['namespace']}/{each['model']}"
    if each["top_entries"]:
        yield f"{name}: served most:"
        yield from (f"  {one['hits']:6} {one['id']}" for one in each["top_entries"])
    if each["top_refusals"]:
        yield f"{name}: not served, mostly because:"
        yield from (f"  {one['requests']:6} {one['reason']}" for one in each["top_refusals"])
