"""The commands that show what the cache keeps and remove it: `stats`, `inspect`, `clusters`, `invalidate`, `flush`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient
from .cache_chosen import choosing
from .cache_index import lines as index_lines
from .terminal import AsJson, Config, fail, print_table, told_plainly

Texts = Annotated[
    bool, typer.Option("--texts", help="With what was asked and answered, where admin.shows_texts is set.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it. Without it, only say what would go.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Of this tenant only.")]
OfNamespace = Annotated[str | None, typer.Option("--namespace", help="Of this namespace only.")]
OfModel = Annotated[str | None, typer.Option("--model", help="Of this model only.")]


def stats(tenant: OfTenant = None, config: Config = None, as_json: AsJson = False) -> None:
    """Show what each tenant keeps, with --tenant by namespace; and the index of similar questions."""
    with told_plainly():
        client = AdminClient(Settings.load(config))
        found = client.ask("GET", "/admin/cache/stats", params={"tenant": tenant})
        found["following"] = client.ask("GET", "/admin/cache/index")
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [("TENANT", "ENTRIES", "OF", "MIB", "OF")]
    for each in found["tenants"]:
        most = str(each["most_entries"]), f"{each['most_bytes'] / 2**20:g}"
        rows.append((each["tenant"], str(each["entries"]), most[0], _mib(each), most[1]))
    print_table(rows)
    if tenant is not None:
        rows = [("NAMESPACE", "MODEL", "ENTRIES", "MIB", "")]
        for each in found["namespaces"]:
            name, model = each["namespace"] or "(not asked of late)", each["model"] or "-"
            rows.append((name, model, str(each["entries"]), _mib(each), ""))
        print_table(rows)
        if not found["is_whole"]:
            typer.echo("of a part of the namespaces' entries: there was no time to count them all")
    for line in _index(found):
        typer.echo(line)


@choosing
def inspect(
    chosen: dict[str, Any],
    entry_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="These entries, by their x-cache-id.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    texts: Texts = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show entries: whose they are, their age and size; with --texts what was asked and answered."""
    found: list[dict[str, Any]] = []
    with told_plainly():
        client = AdminClient(Settings.load(config))
        wish = {**chosen, "texts": texts, "limit": min(1000, limit)}
        if entry_ids:
            wish["ids"] = [*chosen.get("ids", ()), *entry_ids]
        for page in pages(client, "/admin/cache/entries", wish):
            found += page["data"]
            if len(found) >= limit:
                break
            wish["limit"] = min(1000, limit - len(found))
    del found[limit:]
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [("ID", "TENANT", "NAMESPACE", "MODEL", "STORED", "EXPIRES", "BYTES", "SIMILAR", "HITS")]
    for each in found:
        stored, expires = (each[name][:16].replace("T", " ") for name in ("created_at", "expires_at"))
        rows.append(
            (
                *(each[name] for name in ("id", "tenant", "namespace", "model")),
                *(stored, expires, str(each["bytes"]), "yes" if each["is_similar"] else "no"),
                str(each.get("hits", "-")),
            )
        )
    print_table(rows)
    for each in found if texts else ():
        typer.echo(f"{each['id']} asked:    {each['question']!r}")
        typer.echo(f"{each['id']} answered: {each['answer']!r}")


def clusters(
    tenant: Annotated[str, typer.Argument(help="Whose.")],
    namespace: OfNamespace = None,
    model: OfModel = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    texts: Texts = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show the largest groups of similar questions, as one worker's index has drawn them."""
    params = {"tenant": tenant, "namespace": namespace, "model": model, "limit": limit}
    with told_plainly():
        client = AdminClient(Settings.load(config))
        asked = {**params, "texts": "true" if texts else None}
        found = client.ask("GET", "/admin/cache/clusters", params=asked)["data"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [("CLUSTER", "NAMESPACE", "MODEL", "SIZE", "SEARCHES", "HITS", "SIMILARITY", "ID")]
    for each in found:
        hits = "-" if each["hit_rate"] is None else f"{each['hit_rate']:.0%}"
        near = "-" if each["similarity"] is None else f"{each['similarity']:.3f}"
        rows.append(
            (
                *(each["name"], each["namespace"], each["model"], str(each["size"])),
                *(str(each["searches"]), hits, near, each["id"]),
            )
        )
    print_table(rows)
    for each in found if texts else ():
        for question in each["examples"]:
            typer.echo(f"{each['name']}: {question!r}")


@choosing
def invalidate(
    chosen: dict[str, Any],
    everything: Annotated[bool, typer.Option("--everything", help="All entries there are.")] = False,
    yes: Yes = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Remove entries from every worker and host at once; all that is said of them must hold."""
    if not chosen and not everything:
        fail("say which entries are meant, such as --tenant acme --user u1, or --everything")
    found, removed = 0, 0
    wish = {**chosen, "everything": everything, "dry_run": not yes}
    with told_plainly(), progress_bar("removing" if yes else "looking") as tell:
        for page in pages(AdminClient(Settings.load(config)), "/admin/cache/invalidate", wish):
            found, removed = found + page["found"], removed + page["removed"]
            tell(page["progress"])
    if as_json:
        typer.echo(json.dumps({"dry_run": not yes, "found": found, "removed": removed}))
    elif yes:
        typer.echo(f"removed {removed}")
    else:
        typer.echo(f"would remove {found}; nothing was changed (do it with --yes)")


def flush(
    tenant: OfTenant = None,
    namespace: OfNamespace = None,
    model: OfModel = None,
    everything: Annotated[bool, typer.Option("--everything", help="Of all tenants.")] = False,
    yes: Yes = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Forget whole namespaces at once, however large. (`invalidate` removes what it counts.)"""
    wish = {"tenant": tenant, "namespace": namespace, "model": model, "dry_run": not yes}
    if everything != (tenant is namespace is model is None):
        fail("say what is meant, such as --tenant acme --namespace default, or --everything, and not both")
    with told_plainly():
        done = AdminClient(Settings.load(config)).ask("POST", "/admin/cache/flush", wish)
    if as_json:
        typer.echo(json.dumps(done))
        return
    for each in done["namespaces"]:
        typer.echo(f"{each['tenant']}/{each['namespace']} of {each['model']}")
    count = len(done["namespaces"])
    typer.echo(f"flushed {count}" if yes else f"would flush {count}; nothing was changed (do it with --yes)")


def pages(client: AdminClient, path: str, wish: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Until there is no next one. What is changed in the wish holds for the next."""
    while True:
        page = client.ask("POST", path, wish)
        yield page
        if page.get("next") is None:
            return
        wish["after"] = page["next"]


@contextmanager
def progress_bar(what: str) -> Iterator[Any]:
    """A bar, where somebody sees it. What it gives is told how much is done, from 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with typer.progressbar(length=100, label=what, file=sys.stderr) as bar:
        yield lambda done: bar.update(round(100 * done) - bar.pos)


def _index(found: dict[str, Any]) -> Iterator[str]:
    index, sealing = found["index"], found["sealing"]
    recall = "" if index["recall"] is None else f", recall {index['recall']:.1%}"
    yield (
        f"index: {index['vectors']} vectors in {index['partitions']} partitions, {index['bytes'] / 2**20:.1f} of "
        f"{index['most_bytes'] / 2**20:g} MiB{recall}"
    )
    for each in index["largest"]:
        if each["clusters"] > 1:
            yield f"  {each['vectors']} vectors in {each['clusters']} clusters, {each['searched']} looked into"
    age_s = found["snapshot_age_s"]
    yield "no snapshot" if age_s is None else f"last snapshot {age_s:.0f} s ago"
    yield from index_lines(found["following"])
    yield f"of some entries {sealing['sealed']} are sealed and {sealing['unsealed']} are not"


def _mib(each: dict[str, Any]) -> str:
    return f"{each['bytes'] / 2**20:.2f}"
