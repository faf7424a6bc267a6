"""A scripted model server that does as it is told: it calls tools, and fills in schemas. Small real models do neither.

What is called is decided by the request alone: numbers and quoted words of the last question become arguments.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.scripted import Call, ScriptedUpstream, Wire, completion, delta

_FRAGMENT = 5


class Obedient(ScriptedUpstream):
    def __init__(self) -> None:
        super().__init__()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        request = call.json
        tool = _called(request)
        if tool is not None:
            await _send(request, wire, call=_tool_call(tool, _asked(request)))
        else:
            await _send(request, wire, text=_text(request))


def _called(request: dict[str, Any]) -> dict[str, Any] | None:
    """The function to call: the named one, or the first if it has to be one, or where the user has just spoken."""
    functions = [tool["function"] for tool in request.get("tools") or ()]
    choice = request.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        return next(each for each in functions if each["name"] == choice["function"]["name"])
    has_user_spoken = request["messages"][-1]["role"] == "user"
    is_called = choice == "required" or (choice == "auto" and has_user_spoken)
    return functions[0] if functions and is_called else None


def _tool_call(function: dict[str, Any], asked: str) -> dict[str, Any]:
    arguments = json.dumps(filled_in(function.get("parameters") or {}, asked), ensure_ascii=False)
    return {
        "id": f"call_{len(asked)}",
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _text(request: dict[str, Any]) -> str:
    form = request.get("response_format") or {}
    asked = _asked(request)
    match form.get("type"):
        case "json_schema":
            return json.dumps(filled_in(form["json_schema"]["schema"], asked), ensure_ascii=False)
        case "json_object":
            return json.dumps(dict.fromkeys(re.findall(r"'([^']+)'", asked), "yes"))
    return f"You said: {asked[:40]}"


def _asked(request: dict[str, Any]) -> str:
    """What the user said last."""
    content = next(turn["content"] for turn in reversed(request["messages"]) if turn["role"] == "user")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def filled_in(schema: dict[str, Any], asked: str, root: dict[str, Any] | None = None) -> Any:
    """A value that the schema allows."""
    root = schema if root is None else root
    if "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return filled_in(found, asked, root)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return filled_in(schema[word][0], asked, root)
    if "enum" in schema:
        return schema["enum"][0]
    quoted, number = re.search(r"'([^']+)'", asked), re.search(r"\d+", asked)
    match schema.get("type"):
        case "string":
            return quoted[1] if quoted else "yes"
        case "integer" | "number":
            return int(number[0]) if number else 1
        case "boolean":
            return True
        case "array":
            return [filled_in(schema.get("items") or {}, asked, root)]
        case "null":
            return None
    return {name: filled_in(each, asked, root) for name, each in schema.get("properties", {}).items()}


async def _send(
    request: dict[str, Any], wire: Wire, *, text: str = "", call: dict[str, Any] | None = None
) -> None:
    whole = completion(text or "called", model=request["model"])
    finish = "tool_calls" if call else "stop"
    message = {"role": "assistant", "content": None, "tool_calls": [call]} if call else None
    if not request.get("stream"):
        whole["choices"][0] |= {"message": message or whole["choices"][0]["message"], "finish_reason": finish}
        await wire.json(whole)
        return
    parts = _fragments(call) if call else [{"content": part} for part in _cut(text)]
    chunks = [delta(role="assistant", content=None), *(delta(**part) for part in parts), delta(finish=finish)]
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append(delta() | {"choices": [], "usage": whole["usage"]})
    head = {"id": whole["id"], "model": request["model"]}
    await wire.stream([*(chunk | head for chunk in chunks), "[DONE]"])


def _fragments(call: dict[str, Any]) -> list[dict[str, Any]]:
    """As servers stream a call: its name first, then its arguments bit by bit."""
    opening = {"index": 0, **call, "function": call["function"] | {"arguments": ""}}
    arguments = [
        {"index": 0, "function": {"arguments": part}} for part in _cut(call["function"]["arguments"])
    ]
    return [{"tool_calls": [each]} for each in (opening, *arguments)]


def _cut(text: str) -> list[str]:
    return [text[at : at + _FRAGMENT] for at in range(0, len(text), _FRAGMENT)]
