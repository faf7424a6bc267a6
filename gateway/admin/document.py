"""Completes the admin plane's OpenAPI document: errors, keys, and the data plane, which FastAPI does not serve."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from .document_data import data_paths


def describe(app: FastAPI) -> None:
    """Complete the application's OpenAPI document: keys, our own shape of errors, and the data plane's paths."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                routes=app.routes,
                servers=app.servers,
            )
            schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["key"] = {"type": "http", "scheme": "bearer", "description": "A key: `eg-<id>-<secret>`."}
            schemes["x-api-key"] = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
            schemes["admin"] = {"type": "http", "scheme": "bearer", "description": "`ega-<id>-<secret>`"}
            for path, item in document["paths"].items():
                for operation in item.values():
                    _correct(operation, is_admin=path.startswith("/admin/"))
            for name in ("HTTPValidationError", "ValidationError"):
                document["components"].get("schemas", {}).pop(name, None)
            document["paths"] |= data_paths()
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _correct(operation: dict[str, Any], *, is_admin: bool) -> None:
    """FastAPI describes its own form of a refused request, which is not how they look here."""
    schema = (
        operation["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema")
    )
    if schema is not None and schema.get("$ref", "").endswith("/HTTPValidationError"):
        del operation["responses"]["422"]
    if is_admin:
        operation["security"] = [{"admin": []}]
        if "requestBody" in operation:
            operation["responses"]["413"] = operation["responses"]["400"] | {
                "description": "The body is larger than 8 MiB"
            }
