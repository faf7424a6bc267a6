"""A scripted model server for tests: says exactly the bytes a test wants, when it wants, and remembers calls.

    async with ScriptedUpstream() as upstream:
        upstream.reply_json({"error": {"message": "busy"}}, status=503)   # the first POST
        upstream.stream([delta("Hel"), 0.05, delta("lo"), RESET])         # the second one
        ...                                                               # then the defaults answer again
        assert upstream.calls[0].json["model"] == "m"
        await upstream.calls[1].wait_closed()                             # the caller hung up

Scripts are consumed in order by POSTs. Unscripted POSTs get a valid OpenAI answer with a fresh nonce (and any
`nonce-…` word found in the request); `/v1/models`, `/health` and `/version` always answer.
"""

from __future__ import annotations

from .messages import completion, delta
from .upstream import Handler, ScriptedUpstream
from .wire import CUT, HANG, RESET, Call, Part, Wire

__all__ = [
    "CUT",
    "HANG",
    "RESET",
    "Call",
    "Handler",
    "Part",
    "ScriptedUpstream",
    "Wire",
    "completion",
    "delta",
]
