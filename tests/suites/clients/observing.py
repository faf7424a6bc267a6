"""Runs a client's features against each target of a plan, and writes down what came of each and what the HTTP said.

The scripts of this folder run in environments of their own, where nothing of Echogate is installed: as
`python <script> <plan>`, the plan being JSON with `results` (a file), `model` and `targets`.
"""

from __future__ import annotations

import functools
import importlib
import json
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """Where to ask in one phase: `direct`, `cold` or `warm`."""

    phase: str
    base_url: str
    key: str
    model: str
    options: dict[str, Any]  # what makes this model come to an end


_calls: list[dict[str, Any]] = []


def targets() -> Iterator[Target]:
    plan = json.loads(sys.argv[1])
    for target in plan["targets"]:
        yield Target(model=plan["model"], options=plan["options"], **target)


def run(features: Mapping[str, Callable[[Target], Any]]) -> None:
    """Every feature at every target. What a feature returns is what the application saw.

    What fails at the model server itself is not tried any further.
    """
    features = dict(features)
    with observed():
        for target in targets():
            for name, feature in list(features.items()):
                try:
                    note(target, name, outcome="passed", said=feature(target))
                except Exception as error:  # a client may raise anything; it is the result
                    note(target, name, outcome="failed", reason=f"{type(error).__name__}: {error}"[:500])
                    if target.phase == "direct":
                        del features[name]


def note(target: Target, feature: str, *, outcome: str, said: Any = None, reason: str = "") -> None:
    """One line of results, with the calls made since the last one."""
    line = {
        "phase": target.phase,
        "feature": feature,
        "outcome": outcome,
        "reason": reason,
        "said": said,
        "calls": list(_calls),
    }
    _calls.clear()
    with Path(json.loads(sys.argv[1])["results"]).open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")


@contextmanager
def observed() -> Iterator[None]:
    """Every reply that an httpx client of this process gets is noted: these are the libraries below all of them."""
    # Clients are made by the hundred here, and reading all certificates takes each a tenth of a second.
    ssl.create_default_context = functools.cache(ssl.create_default_context)
    for name in ("httpx", "httpx2"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        _watch(library.Client, library.AsyncClient)
    yield


def _watch(client: Any, async_client: Any) -> None:
    send, async_send = client.send, async_client.send

    def noting(self: Any, request: Any, **options: Any) -> Any:
        return _noted(send(self, request, **options))

    async def async_noting(self: Any, request: Any, **options: Any) -> Any:
        return _noted(await async_send(self, request, **options))

    client.send, async_client.send = noting, async_noting


def _noted(reply: Any) -> Any:
    told = {name: reply.headers.get(name) for name in ("x-cache", "x-cache-reason")}
    _calls.append({"path": reply.url.path, "status": reply.status_code, **told})
    return reply
