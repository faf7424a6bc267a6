"""The data plane does what the OpenAPI document says, whatever is sent: no fault, and every reply in its form."""

from __future__ import annotations

import asyncio
import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.running import running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire

from .admin_api import running_admin
from .replying import message, response, response_stream, text_completion, text_stream
from .test_embeddings import embed

# Not that all that fits the document is accepted: the model server has a say, and takes anything here.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "unsupported_method,ignored_auth"
)


class Server(ScriptedUpstream):
    """Answers whatever it is asked, in the form of the endpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        is_streamed = b'"stream":true' in call.body.replace(b" ", b"")
        match call.path:
            case "/v1/chat/completions":
                await self.answer_chat(call, wire)
            case "/v1/embeddings":
                await self._embed(call, wire)
            case "/v1/completions":
                await (wire.stream(text_stream("yes")) if is_streamed else wire.json(text_completion("yes")))
            case "/v1/responses":
                whole = response(message("yes"))
                await (wire.stream(response_stream(whole)) if is_streamed else wire.json(whole))
            case _:
                await wire.json({"model": self.model})

    async def _embed(self, call: Call, wire: Wire) -> None:
        try:
            await embed(call, wire)
        except (LookupError, TypeError):
            await wire.json({"error": {"message": "no input", "code": 400}}, status=400)


async def published(folder: Path) -> dict[str, Any]:
    """What the admin listener tells of the data plane, the model being one that is served."""
    async with running_admin(folder) as admin:
        document: dict[str, Any] = (await admin.api.get("/openapi.json")).json()
    document["paths"] = {p: item for p, item in document["paths"].items() if p.startswith("/v1/")}
    for item in document["paths"].values():
        del item["servers"]
        for operation in item.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "model" in content["schema"]["properties"]:
                    content["schema"]["properties"]["model"] = {"enum": ["m1", "m2"]}
                content["schema"].pop("example", None)
    return document


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_no_request_makes_the_data_plane_break_its_word(tmp_path: Path) -> None:
    tool = shutil.which("schemathesis", path=sysconfig.get_path("scripts"))
    if tool is None:
        pytest.skip("schemathesis is not installed: pip install 'echogate[dev]'")
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(await published(tmp_path)), encoding="utf-8")
    async with Server() as server, running_gateway(server) as gateway:
        process = await asyncio.create_subprocess_exec(
            *(tool, "run", str(file), "--url", gateway.base_url),
            *("--header", f"Authorization: Bearer {gateway.key}", "--checks", CHECKS),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1"),
            *("--continue-on-failure", "--no-color", "--warnings", "off"),
            cwd=tmp_path,  # where it leaves its notes
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-20_000:]
