"""Where a path leads, however it is spelled: Azure's form, a missing or doubled `/v1`, doubled slashes, a last slash.

Whoever writes a base URL by hand gets these wrong, and a redirect would lose the body. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

BASE = "/v1/"


def canonical(path: str, endpoints: Iterable[str]) -> tuple[str, str | None]:
    """The path as it is written here, and the model that it names, as Azure's `/openai/deployments/<model>/…` does.

    A deployment's name may hold slashes, so what follows it is looked for among the `endpoints`, the longest first.
    """
    words = [word for word in path.split("/") if word]
    if words[:1] == ["openai"]:
        del words[0]
    while words[:1] == ["v1"]:
        del words[0]
    rest = "/".join(words)
    if words[:1] == ["deployments"]:
        for endpoint in sorted(endpoints, key=len, reverse=True):
            tail = "/" + endpoint.removeprefix(BASE)
            model = rest.removeprefix("deployments/").removesuffix(tail)
            if rest.endswith(tail) and model and "deployments/" + model + tail == rest:
                return endpoint, model
    return BASE + rest, None


def nearest(path: str, endpoints: Iterable[str]) -> str | None:
    """The endpoint that somebody who asked for this path most likely meant."""
    plain = "/".join(word for word in path.lower().split("/") if word)
    for endpoint in sorted(endpoints, key=len, reverse=True):
        if endpoint.removeprefix(BASE) in plain:
            return endpoint
    return None
