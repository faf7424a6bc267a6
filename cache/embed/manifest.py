"""Owns `manifest.json`: what a prepared model folder holds, made from what and for which processor.

Every file is checked against its sha256 whenever it is loaded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Self

import msgspec

from ..errors import ModelError

NAME = "manifest.json"
_FORMAT = 1
_BLOCK = 1 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = _FORMAT
    recipe: str
    source_sha256: str
    cpu: str
    files: dict[str, str]  # name: sha256

    @classmethod
    def read(cls, folder: Path) -> Self:
        path = folder / NAME
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError as error:
            raise ModelError(f"no prepared model in {folder}: run `echogate models prepare`") from error
        except (OSError, msgspec.MsgspecError) as error:
            raise ModelError(f"{path} cannot be read ({error}): run `echogate models prepare`") from error
        if manifest.format != _FORMAT:
            raise ModelError(
                f"{path} has format {manifest.format}, expected {_FORMAT}: prepare the model again"
            )
        return manifest

    def write(self, folder: Path) -> None:
        (folder / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(self)))

    def verified(self, folder: Path, name: str) -> bytes:
        """The file's content, which is what was hashed: nothing can change between check and use."""
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path} cannot be read ({error}): run `echogate models prepare`") from error
        if hashlib.sha256(content).hexdigest() != self.files.get(name):
            raise ModelError(
                f"{path} is not the file that was prepared (its sha256 differs from {NAME}): "
                "find out who changed it, remove the folder and run `echogate models prepare`"
            )
        return content

    def is_intact(self, folder: Path) -> bool:
        return all(
            (folder / name).is_file() and sha256(folder / name) == expected
            for name, expected in self.files.items()
        )


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
