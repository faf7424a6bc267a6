"""Puts the admin plane together: a FastAPI application around what the supervisor can do.

Keys need the admin key. Metrics, health and documentation do not: the plane's own address is their fence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from auth import Directory, Limits

from ..bootstrap import AdminKey
from ..control import ControlRecord
from ..errors import ApiError, InvalidRequest, error_body
from ..metrics_merge import OPENMETRICS_TYPE, PROMETHEUS_TYPE, Snapshot, render
from ..runtime import Readiness
from ..version import VERSION
from .data_plane import describe_data_plane
from .keys import keys_router


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What the plane works on. Callables, because the plane is up before all of it is there."""

    directory: Directory
    default_limits: Limits
    admin_key: Callable[[], AdminKey | None]  # None: not known yet
    publish: Callable[[ControlRecord], Awaitable[tuple[str, list[int]]]]
    metrics: Callable[[], Awaitable[Snapshot]]
    readiness: Callable[[], Awaitable[Readiness]]


def create_app(context: AdminContext) -> FastAPI:
    app = FastAPI(
        title="Echogate",
        version=VERSION,
        summary="A semantic-caching gateway for LLMs, OpenAI-compatible.",
        docs_url=None,
        redoc_url=None,
        # Relative, so that the pages work behind a proxy that strips a path prefix.
        servers=[{"url": ".", "description": "admin plane"}],
    )
    app.include_router(keys_router(context))
    _add_metrics(app, context)
    _add_health(app, context)
    _add_docs(app)
    app.add_exception_handler(ApiError, _on_api_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    describe_data_plane(app)
    return app


def _add_metrics(app: FastAPI, context: AdminContext) -> None:
    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics", tags=["observability"], response_class=Response)
    async def metrics(request: Request) -> Response:
        """All workers' metrics, added up. OpenMetrics (with exemplars) if asked for, else Prometheus' text."""
        as_openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        body = render(await context.metrics(), as_openmetrics=as_openmetrics)
        return Response(body, media_type=OPENMETRICS_TYPE if as_openmetrics else PROMETHEUS_TYPE)


def _add_health(app: FastAPI, context: AdminContext) -> None:
    # By HEAD too, as many monitors ask.
    @app.head("/health/live", include_in_schema=False)
    @app.get("/health/live", tags=["health"])
    async def live() -> dict[str, str]:
        """The process answers. Depends on nothing else."""
        return {"status": "ok"}

    @app.head("/health/ready", include_in_schema=False)
    @app.get("/health/ready", tags=["health"])
    async def ready(response: Response) -> dict[str, str | list[str]]:
        """200 `ok`, or `degraded` with reasons; 503 while starting or draining."""
        readiness = await context.readiness()
        if readiness.state in ("starting", "draining"):
            response.status_code = 503
        return {"status": readiness.state, "reasons": list(readiness.reasons)}


def _add_docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(openapi_url="openapi.json", title="Echogate")


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body(), error.status, error.headers, media_type="application/json")


async def _on_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    refusal = InvalidRequest(f"{'.'.join(place) or 'body'}: {first['msg']}", param=".".join(place) or None)
    return await _on_api_error(_, refusal)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    body = error_body(str(error.detail), type_="invalid_request_error", param=None, code=code)
    return Response(body, error.status_code, error.headers, media_type="application/json")
