"""Asks a running Echogate's admin plane, found by its data folder, on behalf of the command line."""

from __future__ import annotations

from typing import Any

import httpx

from .data_folder import DataFolder, DataFolderError


class AdminError(Exception):
    """The admin plane refused or could not be reached. The message is for the person at the terminal."""


class AdminClient:
    def __init__(self, folder: DataFolder) -> None:
        holder = folder.holder()
        if holder is None:
            raise AdminError(f"no Echogate serves from {folder.path}: start it with `echogate serve`")
        try:
            key = folder.read_admin_key()
        except DataFolderError as error:
            raise AdminError(str(error)) from error
        if key is None:
            raise AdminError(f"there is no admin key in {folder.admin_key_path}")
        host, _, port = holder.admin.rpartition(":")
        if host in ("0.0.0.0", "[::]"):
            host = "127.0.0.1" if host == "0.0.0.0" else "[::1]"
        self._base_url = f"http://{host}:{port}"
        self._headers = {"authorization": f"Bearer {key}"}

    def create_key(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return self._ask("POST", "/admin/keys", wanted)

    def list_keys(self) -> list[dict[str, Any]]:
        keys: list[dict[str, Any]] = self._ask("GET", "/admin/keys")["data"]
        return keys

    def revoke_key(self, key_id: str) -> dict[str, Any]:
        return self._ask("DELETE", f"/admin/keys/{key_id}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            # Proxies named in the environment have no business between this machine and itself.
            with httpx.Client(base_url=self._base_url, headers=self._headers, trust_env=False) as client:
                reply = client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise AdminError(f"the admin plane at {self._base_url} does not answer: {error}") from error
        content: dict[str, Any] = reply.json()
        if reply.is_error:
            raise AdminError(content["error"]["message"])
        return content
