"""Paths as people and SDKs write them, and where they lead."""

from __future__ import annotations

import pytest

from gateway.data.paths import canonical, nearest

ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/models", "/v1/embeddings")


@pytest.mark.parametrize(
    ("path", "leads_to", "model"),
    [
        ("/v1/chat/completions", "/v1/chat/completions", None),
        ("/v1/chat/completions/", "/v1/chat/completions", None),
        ("//v1//chat/completions", "/v1/chat/completions", None),
        ("/chat/completions", "/v1/chat/completions", None),
        ("/v1/v1/chat/completions", "/v1/chat/completions", None),
        ("/openai/v1/chat/completions", "/v1/chat/completions", None),
        ("/openai/deployments/m1/chat/completions", "/v1/chat/completions", "m1"),
        ("/openai/deployments/m1/completions", "/v1/completions", "m1"),
        ("/openai/deployments/chat/completions", "/v1/completions", "chat"),
        ("/openai/deployments/org/m-1.5/chat/completions/", "/v1/chat/completions", "org/m-1.5"),
        ("/deployments/m1/embeddings", "/v1/embeddings", "m1"),
        ("/openai/deployments/m1/images", "/v1/deployments/m1/images", None),
        ("/openai/deployments/m1", "/v1/deployments/m1", None),
        ("/openai/models", "/v1/models", None),
        ("/v1/models/org/m", "/v1/models/org/m", None),
        ("/", "/v1/", None),
        ("", "/v1/", None),
    ],
)
def test_a_path_leads_to_one_place_however_it_is_written(path: str, leads_to: str, model: str | None) -> None:
    assert canonical(path, ENDPOINTS) == (leads_to, model)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api/v1/chat/completions", "/v1/chat/completions"),
        ("/V1/Chat/Completions", "/v1/chat/completions"),
        ("/v1/engines/m/completions", "/v1/completions"),
        ("/v1/images/generations", None),
    ],
)
def test_who_asks_beside_it_is_told_the_nearest(path: str, meant: str | None) -> None:
    assert nearest(path, ENDPOINTS) == meant
