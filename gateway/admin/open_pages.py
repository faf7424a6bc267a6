"""The pages of the admin plane that need no key: metrics, health, documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse

from ..host.runtime import Readiness
from ..telemetry.metrics_merge import OPENMETRICS_TYPE, PROMETHEUS_TYPE, Snapshot, render


def add_open_pages(
    app: FastAPI,
    *,
    metrics: Callable[[], Awaitable[Snapshot]],
    readiness: Callable[[], Awaitable[Readiness]],
) -> None:
    _add_metrics(app, metrics)
    _add_health(app, readiness)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(openapi_url="openapi.json", title="Echogate")


def _add_metrics(app: FastAPI, read: Callable[[], Awaitable[Snapshot]]) -> None:
    @app.head("/metrics", include_in_schema=False)
    @app.get(
        "/metrics",
        tags=["observability"],
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}},
        },
    )
    async def metrics(request: Request) -> Response:
        """All workers' metrics, added up. OpenMetrics (with exemplars) if asked for, else Prometheus' text."""
        as_openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        body = render(await read(), as_openmetrics=as_openmetrics)
        return Response(body, media_type=OPENMETRICS_TYPE if as_openmetrics else PROMETHEUS_TYPE)


def _add_health(app: FastAPI, read: Callable[[], Awaitable[Readiness]]) -> None:
    # By HEAD too, as many monitors ask.
    @app.head("/health/live", include_in_schema=False)
    @app.get("/health/live", tags=["health"])
    async def live() -> dict[str, str]:
        """The process answers. Depends on nothing else."""
        return {"status": "ok"}

    @app.head("/health/ready", include_in_schema=False)
    @app.get("/health/ready", tags=["health"], responses={503: {"description": "Starting or draining"}})
    async def ready(response: Response) -> dict[str, str | list[str]]:
        """200 `ok`, or `degraded` with reasons; 503 while starting or draining."""
        now = await read()
        if now.state in ("starting", "draining"):
            response.status_code = 503
        return {"status": now.state, "reasons": list(now.reasons)}
