"""The dialects that answers are asked for and given in, each as one value: chat completions, completions, responses."""

from __future__ import annotations

from collections.abc import Mapping

from ..body import Json
from .chat import CHAT
from .completions import COMPLETIONS
from .dialect import Dialect
from .responses import RESPONSES

DIALECTS = (CHAT, COMPLETIONS, RESPONSES)


def dialect_of(values: Mapping[str, Json]) -> Dialect:
    """That of a body whose endpoint is not known, by the member that holds the question."""
    return next((dialect for dialect in DIALECTS if dialect.question in values), CHAT)


__all__ = ["CHAT", "COMPLETIONS", "DIALECTS", "RESPONSES", "Dialect", "dialect_of"]
