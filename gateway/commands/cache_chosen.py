"""The options by which people at a terminal say which of the cache's entries they mean, for each command that asks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from .arguments import seconds
from .terminal import told_plainly

_KIND = inspect.Parameter.KEYWORD_ONLY
_TEXT = str | None
_OPTIONS: dict[str, tuple[Any, str]] = {
    "tenant": (_TEXT, "Of this tenant."),
    "service": (_TEXT, "Of this service of the tenant: whose answer it was first."),
    "namespace": (_TEXT, "Of this namespace of the tenant."),
    "user": (_TEXT, "Of this user of the tenant: `user` of the request that led to the answer."),
    "safety_identifier": (_TEXT, "Likewise."),
    "key": (_TEXT, "Of the key with this id."),
    "model": (_TEXT, "Of this model, by its public name."),
    "version": (_TEXT, "Of this version, as model@revision."),
    "request_id": (_TEXT, "What answered this request, or became of its answer: its x-echogate-request-id."),
    "cluster": (_TEXT, "In this cluster, by its id."),
    "ids": (list[str] | None, "This entry, by its x-cache-id. May be given several times."),
    "older_than": (_TEXT, "Stored longer ago, such as 7d."),
    "alike": (_TEXT, "Questions near this text in meaning."),
    "min_similarity": (float | None, "With --alike: the least cosine; without it, 0.95."),
}
_NAMES = {"ids": "--id"}


def choosing(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all these options, which gets what was chosen as its first argument, a body of the admin API."""

    def chosen_first(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in _OPTIONS}
        if (older_than := chosen.pop("older_than")) is not None:
            with told_plainly():
                chosen["older_than_s"] = seconds(older_than)
        command({name: value for name, value in chosen.items() if value is not None}, **given)

    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    parameters = [inspect.Parameter(name, _KIND, default=None, annotation=_option(name)) for name in _OPTIONS]
    parameters += [each.replace(kind=_KIND, annotation=hints[each.name]) for each in own]
    chosen_first.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what Typer reads
    chosen_first.__annotations__ = {each.name: each.annotation for each in parameters}
    chosen_first.__doc__ = command.__doc__
    return chosen_first


def _option(name: str) -> Any:
    kind, told = _OPTIONS[name]
    flag = _NAMES.get(name, f"--{name.replace('_', '-')}")
    return Annotated[kind, typer.Option(flag, help=told, show_default=False)]
