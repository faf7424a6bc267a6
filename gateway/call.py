"""What a request asks for, read once: the pieces that later steps need, as one value."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from backends import Member, Version
from cache import Question

from .answers import KEEPING, Keeping, Kind, Reading, Usage
from .body import Body, Json, canonical
from .controls import Controls
from .dialects import Dialect
from .errors import InvalidRequest
from .routing import Route


class Wish(msgspec.Struct, frozen=True):
    """How the answer is to travel."""

    model: str
    wants_stream: bool
    include_usage: bool
    wants_running_usage: bool = False  # vLLM's continuous_usage_stats


class Call(msgspec.Struct, frozen=True):
    """A request, understood. `question` is None where the cache is bypassed, for the reason `bypass`.

    `echo` are members of the request that its reply repeats: not part of the question, and of no other's reply.
    """

    dialect: Dialect
    body: Body
    wish: Wish
    route: Route
    controls: Controls
    question: Question | None
    bypass: str | None
    keeping: Mapping[Kind, Keeping] = msgspec.field(default_factory=lambda: KEEPING)
    material: bytes = b""  # of the question's partition
    echo: Mapping[str, Json] = msgspec.field(default_factory=dict)

    @property
    def version(self) -> Version:
        return self.route.version

    def why_not_kept(self, reading: Reading) -> str | None:
        if reading.reason is not None:
            return reading.reason
        if self.keeping[reading.kind] == "off":
            return f"kind-{reading.kind}"
        return "finish-length" if self._is_used_up(reading.usage) else None

    def _is_used_up(self, usage: Usage | None) -> bool:
        """Has the answer all the tokens that it might have, so that it may have been cut without saying so?

        llama.cpp calls such a response completed.
        """
        limit = self.body.values.get(self.dialect.output_limit) if self.dialect.output_limit else None
        return usage is not None and isinstance(limit, int) and usage.output_tokens >= limit

    def upstream_body(self, member: Member) -> bytes:
        """The caller's own body but for the model's name there, our own controls, and usage on streams.

        Usage is always asked for, since limits and savings are counted by it; it is taken out again on the
        way back where the caller did not ask.
        """
        replacements: dict[str, str | None] = {"model": canonical(member.upstream_model)}
        replacements |= self.route.fields_for(member, self.body.values)
        if "cache" in self.body.values:
            replacements["cache"] = None
        if not self.dialect.has_usage_option:
            return self.body.joined(replacements)
        if not self.wish.wants_stream and "stream_options" in self.body.values:
            replacements["stream_options"] = None  # null or empty; servers refuse it in any form
        if self.wish.wants_stream and not self.wish.include_usage:
            options = self.body.values.get("stream_options")
            options = options if isinstance(options, dict) else {}
            replacements["stream_options"] = canonical({**options, "include_usage": True})
        return self.body.joined(replacements)


def read_wish(values: dict[str, Json], *, dialect: Dialect) -> Wish:
    """Checks only what the gateway itself needs; everything else is the model server's to judge."""
    model = values.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model must be a non-empty string.", param="model")
    stream = values.get("stream")
    if not isinstance(stream, bool | None):
        raise InvalidRequest("stream must be true or false.", param="stream")
    options = values.get("stream_options")
    if not isinstance(options, dict | None):
        raise InvalidRequest("stream_options must be an object.", param="stream_options")
    if options and stream is not True and dialect.has_usage_option:
        # As OpenAI says it. A hit would not mind, but whether one gets an error must not depend on the cache.
        raise InvalidRequest(
            "stream_options is for streams only: set stream to true.", param="stream_options"
        )
    for name in ("api_base", "base_url", "api_key"):
        if name in values:
            # Known from other gateways as a way to make them call any address with their own credentials.
            raise InvalidRequest(f"{name} is not accepted in a request.", param=name)
    include_usage = options is not None and options.get("include_usage") is True
    return Wish(
        model=model,
        wants_stream=stream is True,
        include_usage=include_usage,
        wants_running_usage=options is not None and options.get("continuous_usage_stats") is True,
    )
