"""The admin API does what its OpenAPI document says, whatever is sent: no fault, and no reply that it does not name."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from .admin_api import Admin, running_admin
from .admin_cache import SEMANTIC, TEXT, both

# Not that all that fits the document is accepted: a name may be taken, and a service needs its tenant.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth"
)
# Here are no workers to be asked: these are 503.
OF_ENTRIES = "(stats|clusters|entries|invalidate|flush|export|import)"
ASK_WORKERS = f"backends$|backends/route|cache/(report|why-no-hits|explain|shadow|judgements|{OF_ENTRIES})"


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_no_request_makes_the_admin_api_break_its_word(tmp_path: Path) -> None:
    async with running_admin(tmp_path) as admin:
        await keeps_its_word(admin, f"^/key/|^/admin/(?!{ASK_WORKERS})", tmp_path)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_no_request_for_the_caches_entries_does_either(tmp_path: Path) -> None:
    """With a worker that can be asked."""
    async with both(tmp_path, shows_texts=True, **SEMANTIC) as here:
        await here.asked(TEXT)
        await keeps_its_word(here.admin, f"^/cache/|^/admin/cache/{OF_ENTRIES}", tmp_path)


async def keeps_its_word(admin: Admin, paths: str, folder: Path) -> None:
    tool = shutil.which("schemathesis", path=sysconfig.get_path("scripts"))
    if tool is None:
        pytest.skip("schemathesis is not installed: pip install 'echogate[dev]'")
    async with served(admin) as url:
        process = await asyncio.create_subprocess_exec(
            *(tool, "run", f"{url}/openapi.json", "--url", url),
            *("--header", f"Authorization: Bearer {admin.owner}"),
            *("--include-path-regex", paths, "--checks", CHECKS),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1"),
            *("--continue-on-failure", "--no-color", "--warnings", "off"),
            cwd=folder,  # where it leaves its notes
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-20_000:]


@asynccontextmanager
async def served(admin: Admin) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio's own loop leaves Nagle's algorithm on, which makes every reply wait for the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(admin.app, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment] # the test's own signals
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()
