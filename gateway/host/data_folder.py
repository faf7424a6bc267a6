"""Owns the data folder: one `serve` at a time, who that is, and where the admin key and the audit key lie."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

_AUDIT_KEY_BYTES = 32


class DataFolderError(Exception):
    """The data folder cannot be used, or nobody serves from it. The message says why."""


class Holder(msgspec.Struct, frozen=True):
    """The `serve` that holds a data folder, and where its two planes listen (HOST:PORT)."""

    pid: int
    data_plane: str
    admin: str


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_path = path / "serve.lock"
        self.admin_key_path = path / "admin.key"
        self.admin_certificate_path = path / "admin-client.pem"
        self._audit_key_path = path / "audit.key"

    def make(self) -> None:
        """For its owner's eyes only, if it is not there yet. Raises DataFolderError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DataFolderError(f"cannot use the data folder {self.path}: {error.strerror}") from error

    @contextmanager
    def held(self) -> Iterator[LockedFolder]:
        """Hold the folder for as long as the block runs. Raises DataFolderError if another process does."""
        self.make()
        try:
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataFolderError(f"cannot use the data folder {self.path}: {error.strerror}") from error
        try:
            if not _try_lock(lock):
                raise DataFolderError(f"the data folder {self.path} is in use{self._by_whom()}")
            yield LockedFolder(lock)
            os.ftruncate(lock, 0)
        finally:
            os.close(lock)  # which unlocks

    def holder(self) -> Holder | None:
        """Who serves from this folder now; None if nobody does (or has not said so yet)."""
        try:
            lock = os.open(self._lock_path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return None if _try_lock(lock) else _read_holder(self._lock_path)
        finally:
            os.close(lock)

    def read_admin_key(self) -> str | None:
        try:
            return self.admin_key_path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataFolderError(f"cannot read {self.admin_key_path}: {error.strerror}") from error

    def write_admin_key(self, key: str) -> None:
        _write_secret(self.admin_key_path, key)

    def remove_admin_key(self) -> None:
        self.admin_key_path.unlink(missing_ok=True)

    def audit_key(self) -> bytes:
        """The audit log's key, which is made if it is not there. Raises DataFolderError."""
        path = self._audit_key_path
        try:
            if not path.exists():
                _write_secret(path, secrets.token_hex(_AUDIT_KEY_BYTES))
            key = bytes.fromhex(path.read_text(encoding="ascii"))
        except OSError as error:
            raise DataFolderError(f"cannot use {path}: {error.strerror}") from error
        except ValueError as error:
            raise DataFolderError(f"{path} is not a key: expected hexadecimal digits") from error
        if len(key) < _AUDIT_KEY_BYTES:
            raise DataFolderError(f"{path} has {len(key)} bytes; it needs at least {_AUDIT_KEY_BYTES}")
        return key

    def _by_whom(self) -> str:
        holder = _read_holder(self._lock_path)
        if holder is None:
            return " by another process"
        return f" by process {holder.pid}, which serves {holder.data_plane} (admin: {holder.admin})"


class LockedFolder:
    def __init__(self, lock: int) -> None:
        self._lock = lock

    def say(self, holder: Holder) -> None:
        """Leave word of who holds the folder, for the next one who wants it and for the command line."""
        content = msgspec.json.encode(holder)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, content, 0)


def _write_secret(path: Path, secret: str) -> None:
    """For its owner's eyes only, from the first byte on, and whole or not at all."""
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None
