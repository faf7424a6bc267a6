"""The commands about the cache of a running Echogate: why a request is answered as it is, how it does, its modes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient
from .cache_entries import clusters, flush, inspect, invalidate, stats
from .cache_index import index
from .cache_report import report
from .cache_transfer import export, take_in
from .terminal import AsJson, Config, fail, told_plainly

cache = typer.Typer(help="The cache of a running Echogate.", no_args_is_help=True)
_ELSEWHERE: dict[str, Callable[..., None]] = {
    "report": report,
    "stats": stats,
    "index": index,
    "inspect": inspect,
    "clusters": clusters,
    "invalidate": invalidate,
    "flush": flush,
    "export": export,
    "import": take_in,
}
for name, command in _ELSEWHERE.items():
    cache.command(name)(command)

_MODES = ("off", "exact", "shadow", "semantic", "configured")


def explain_request(
    question: Annotated[str | None, typer.Argument(help="The user's question.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose question it would be.")] = None,
    model: Annotated[str | None, typer.Option(help="The public name of the model.")] = None,
    system: Annotated[str | None, typer.Option(help="The system message, if there is one.")] = None,
    namespace: Annotated[str, typer.Option(help="The cache namespace.")] = "default",
    request_id: Annotated[
        str | None, typer.Option(help="Of a past request: its x-echogate-request-id.")
    ] = None,
    is_about_misses: Annotated[
        bool,
        typer.Option("--why-no-hits", help="What keeps the requests of a tenant, or of a key, from hitting."),
    ] = False,
    key_id: Annotated[str | None, typer.Option("--key", help="With --why-no-hits: of this key only.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Say what the cache would answer to a question and why, or why a past request was answered as it was."""
    if is_about_misses:
        _explain_misses(tenant, key_id, config, as_json)
        return
    if request_id is not None:
        body: dict[str, Any] = {"request_id": request_id}
    elif question is None or tenant is None or model is None:
        fail("give a question with --tenant and --model, or --request-id")
    else:
        messages = [{"role": "system", "content": system}] if system is not None else []
        messages.append({"role": "user", "content": question})
        body = {
            "tenant": tenant,
            "request": {"model": model, "messages": messages},
            "headers": {"x-cache-namespace": namespace},
        }
    with told_plainly():
        found = AdminClient(Settings.load(config)).ask("POST", "/admin/cache/explain", body)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for line in _past(found) if request_id is not None else _sentences(found):
            typer.echo(line)


@cache.command("mode")
def set_mode(
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    namespace: Annotated[str, typer.Argument(help="Its cache namespace, such as default.")],
    mode: Annotated[str, typer.Argument(help="off, exact, shadow, semantic, or configured.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Switch a namespace to a mode, at once and over restarts."""
    if mode not in _MODES:
        fail(f"the mode is one of {', '.join(_MODES)}")
    wanted = {"mode": None if mode == "configured" else mode}
    with told_plainly():
        client = AdminClient(Settings.load(config))
        made = client.ask("PUT", f"/admin/cache/modes/{tenant}/{namespace}", wanted)
    typer.echo(json.dumps(made) if as_json else f"{tenant}/{namespace}: {mode}")


def _explain_misses(tenant: str | None, key_id: str | None, config: Path | None, as_json: bool) -> None:
    if tenant is None:
        fail("--why-no-hits needs --tenant")
    params = {"tenant": tenant, "key_id": key_id}
    with told_plainly():
        found = AdminClient(Settings.load(config)).ask("GET", "/admin/cache/why-no-hits", params=params)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{found['hits']} hits in a sample of {found['requests']} requests")
    typer.echo(f"partitions: {found['partitions']}, {found['partitions_seen_once']:.0%} of them seen once")
    typer.echo(f"questions seen once: {found['questions_seen_once']:.0%}")
    for reason, count in found["reasons"].items():
        typer.echo(f"  {count} {reason}")
    if found["varied_most"] is not None:
        typer.echo(f"varied most of what must match exactly: {found['varied_most']}")
    for one in found["varying"]:
        typer.echo(f"differs: {one['part']}, {one['values']} values in {one['requests']} requests")


def _sentences(found: dict[str, Any]) -> list[str]:
    reason = f" ({found['reason']})" if found["reason"] else ""
    lines = [f"{found['would']}{reason}, in mode {found['mode']}"]
    if found["would"] == "BYPASS":
        return lines
    standing = found["standing"]
    lines.append(f"namespace {found['namespace']}: {standing['state']}, {standing['reason']}")
    if skip := found["eligibility"]["only_exact_because"]:
        lines.append(f"matched exactly only: {skip}")
    canonical = f", canonical key {found['canonical_key']}" if found["canonical_key"] else ""
    lines.append(f"exact key {found['exact_key']}{canonical}; must match exactly:")
    lines += [f"  {name} {digest}" for name, digest in found["partition"].items()]
    for near in found["neighbours"]:
        score = "" if near["score"] is None else f", score {near['score']:.2f}"
        if near["score"] is not None and near["least_score"] is not None:
            score += f" of {near['least_score']:.2f}"
        origin = near["origin"]
        lines.append(
            f"near: {near['id']} cosine {near['similarity']:.4f} of {near['threshold']:.4f}{score}, "
            f"{near['age_s']:.0f} s old, by {origin.get('backend', '?')} ({origin['model']} {origin['revision']}) for "
            f"{origin.get('request_id', '?')}: {near['reason']}"
        )
        if near["alias_of"] is not None:
            lines.append(f"  shares the answer of {near['alias_of']}")
        lines.append(
            f"  vetoes: {', '.join(near['vetoes']) or 'none'}; passed: {', '.join(near['vetoes_passed'])}"
        )
    return lines


def _past(found: dict[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(found["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    tier = f", {found['tier']}" if found["tier"] else ""
    lines = [f"{found['outcome']}{tier} ({found['reason'] or 'the same question'}) at {at}Z"]
    lines.append(f"namespace {found['namespace']}: {found['standing']}")
    if found["similarity"] is not None:
        alias = f", near its alias {found['alias_id']}" if found["alias_id"] else ""
        lines.append(f"entry {found['entry_id']} at cosine {found['similarity']:.4f}{alias}")
    lines += [f"  {name} {value:.4f}" for name, value in found["verdict"].items()]
    return lines
