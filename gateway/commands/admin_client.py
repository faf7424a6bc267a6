"""Asks a running Echogate's admin plane, found by its data folder, on behalf of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from ..host.data_folder import DataFolder, DataFolderError
from ..host.tls import client_context
from ..settings.reading import Settings

_PAGE = 1000
_TIMEOUT_S = 30.0


class AdminError(Exception):
    """The admin plane refused or could not be reached. The message is for the person at the terminal."""


class AdminClient:
    """Raises AdminError where nobody serves from the settings' data folder, or its admin key is not there."""

    def __init__(self, settings: Settings) -> None:
        folder = DataFolder(settings.data_dir)
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
        tls = settings.admin.tls
        self._base_url = f"{'http' if tls is None else 'https'}://{host}:{port}"
        self._headers = {"authorization": f"Bearer {key}"}
        self._verify = True if tls is None else client_context(tls, folder.admin_certificate_path)

    def ask(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        content: dict[str, Any] = self._send(method, path, body, params).json()
        return content

    def text(self, path: str, *, params: Mapping[str, Any]) -> tuple[str, str | None]:
        """A page that is not JSON, and where it goes on."""
        reply = self._send("GET", path, None, params)
        return reply.text, reply.headers.get("x-next")

    def all(self, path: str, *, params: Mapping[str, Any] | None = None, page: int = _PAGE) -> list[Any]:
        """Every page of a list."""
        return list(self._pages(path, params or {}, page))

    def _pages(self, path: str, params: Mapping[str, Any], page: int) -> Iterator[Any]:
        after: Any = None
        while True:
            listing = self.ask("GET", path, params={**params, "limit": page, "after": after})
            yield from listing["data"]
            after = listing["next"]
            if after is None:
                return

    def _send(self, method: str, path: str, body: Any, params: Mapping[str, Any] | None) -> httpx.Response:
        wanted = {name: value for name, value in (params or {}).items() if value is not None}
        try:
            # Proxies named in the environment have no business between this machine and itself.
            with httpx.Client(
                base_url=self._base_url,
                headers=self._headers,
                trust_env=False,
                verify=self._verify,
                timeout=_TIMEOUT_S,
            ) as client:
                reply = client.request(method, path, json=body, params=wanted)
        except httpx.HTTPError as error:
            raise AdminError(f"the admin plane at {self._base_url} does not answer: {error}") from error
        if reply.is_error:
            raise AdminError(reply.json()["error"]["message"])
        return reply
