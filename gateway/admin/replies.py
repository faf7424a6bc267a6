"""Turns whatever goes wrong on the admin plane into OpenAI's shape of an error, and says which errors there are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ..errors import ApiError, InvalidRequest, error_body
from .model import Error

_ERRORS: dict[int, str] = {
    400: "The request is not what was expected; `param` says where",
    401: "No admin key, or one that is wrong or disabled",
    403: "The role of this key may not do this",
    404: "There is none of this name",
    409: "It is there already, or others belong to it, or a request with this Idempotency-Key is under way",
    422: "This Idempotency-Key was used for another request",
    503: "The durable store does not answer, or acts cannot be recorded in the audit log",
}
# What every route of the API can answer beside its own.
USUAL: tuple[int, ...] = (400, 401, 403, 503)


def errors(*statuses: int, unreplicated: type[BaseModel] | None = None) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: these errors and the usual ones; and the shape of a change that is made, but that
    no replica of the store has confirmed."""
    replies: dict[int | str, dict[str, Any]] = {
        status: {"model": Error, "description": _ERRORS[status]} for status in sorted({*USUAL, *statuses})
    }
    if unreplicated is not None:
        replies[202] = {"model": unreplicated, "description": "As 200, but `replicated` is false"}
    return replies


def add_error_replies(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, _on_api_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body(), error.status, error.headers, media_type="application/json")


async def _on_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path", "header")]
    param = ".".join(place)[:200] or None
    return await _on_api_error(_, InvalidRequest(f"{param or 'body'}: {first['msg']}", param=param))


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}.get(
        error.status_code, "invalid_request"
    )
    body = error_body(str(error.detail), type_="invalid_request_error", param=None, code=code)
    return Response(body, error.status_code, error.headers, media_type="application/json")
