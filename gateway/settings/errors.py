"""Tells what is wrong with a configuration: the key, what was expected, and which names come near."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

# Kubernetes puts variables of these shapes into every pod of a namespace that has a service named echogate*.
_SERVICE_LINK = re.compile(
    r"(.*_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
_NOT_SETTINGS = {"ECHOGATE_CONFIG"}  # the command line's own


class SettingsError(Exception):
    """The configuration cannot be used. The message says which setting and what to change."""


def explain(model: type[BaseModel], error: ValidationError, *, source: Path | None) -> str:
    where = f"{source} (or its ECHOGATE_* overrides)" if source else "the ECHOGATE_* environment"
    lines = [f"{where} cannot be used:"]
    for fact in error.errors(include_input=False, include_url=False):
        path = tuple(str(part) for part in fact["loc"])
        if fact["type"] == "extra_forbidden":
            lines.append(f"  {'.'.join(path)}: unknown setting{_suggestion(model, path)}")
        else:
            message = fact["msg"].removeprefix("Value error, ")
            lines.append(f"  {'.'.join(path)}: {message[:1].lower()}{message[1:]}")
    return "\n".join(lines)


def unknown_variables(model: type[BaseModel], environment: Mapping[str, str], *, prefix: str) -> list[str]:
    """A sentence for each variable that has our prefix and names no setting: a typo must not be silent."""
    known = {(prefix + name).upper() for name in model.model_fields}
    found = []
    for name in sorted(environment):
        upper = name.upper()
        is_known = upper.split("__")[0] in known
        if not upper.startswith(prefix) or is_known or upper in _NOT_SETTINGS:
            continue
        if _SERVICE_LINK.fullmatch(upper.removeprefix(prefix)):
            continue
        names = [prefix + path.upper().replace(".", "__") for path in setting_paths(model)]
        found.append(f"environment: {name} names no setting{_near(upper, names)}")
    return found


def setting_paths(model: type[BaseModel], parent: str = "") -> Iterator[str]:
    """Every setting as a dotted path, sections before what is in them."""
    for name, field in model.model_fields.items():
        yield parent + name
        if (section := _section(field.annotation)) is not None:
            yield from setting_paths(section, f"{parent}{name}.")


def _section(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _suggestion(model: type[BaseModel], path: tuple[str, ...]) -> str:
    names = list(_fields_at(model, path[:-1]))
    near = _near(path[-1], names)
    if not near and len(path) > 1:
        return f"; known here: {', '.join(names)}"
    return near


def _near(name: str, names: list[str]) -> str:
    matches = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def _fields_at(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """The field names of the section at a path; map keys and list positions are stepped over."""
    here: type[BaseModel] | None = model
    for part in path:
        if here is None:
            return []
        if part in here.model_fields:
            inner = [here.model_fields[part].annotation]
            while inner and _section(inner[-1]) is None:
                args = [arg for arg in get_args(inner.pop()) if arg is not Ellipsis]
                inner.extend(args)
            here = _section(inner[-1]) if inner else here
    return list(here.model_fields) if here is not None else []
