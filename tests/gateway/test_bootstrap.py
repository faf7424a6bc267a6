"""What a start makes sure of, in a real store and a data folder: the secret, the admin key, the policy, the ports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admin.stored_keys import AdminKeys, mint
from gateway.host.bootstrap import (
    BootstrapError,
    deployment_secret,
    first_admin_key,
    is_loopback,
    refuse_evicting_policy,
    wait_for_store,
)
from gateway.host.data_folder import DataFolder, DataFolderError, Holder
from gateway.host.serving import BindError, address_of, reserve
from gateway.store.client import StoreClient
from tests.valkey import Valkey, running_valkey

LOCAL = "127.0.0.1:8081"


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as valkey:
        yield valkey


@pytest.fixture
async def store(valkey: Valkey) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(valkey.url, deadline_s=2.0) as store:
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path)


async def test_the_first_start_makes_the_secret_and_all_others_find_it(store: StoreClient) -> None:
    secrets = await asyncio.gather(*(deployment_secret(store) for _ in range(5)))
    assert len(set(secrets)) == 1
    assert len(secrets[0]) == 32


async def test_the_first_admin_key_is_for_its_owners_eyes_only(
    store: StoreClient, folder: DataFolder
) -> None:
    keys = AdminKeys(store)
    made = await first_admin_key(keys, folder, bind=LOCAL)
    assert made is not None
    assert folder.read_admin_key() == made
    assert folder.admin_key_path.stat().st_mode & 0o777 == 0o600
    known = await keys.authenticate(made)
    assert known is not None
    assert known.role == "owner"
    assert await keys.authenticate(made + "x") is None
    assert made.split("-")[2] not in repr(known)


async def test_a_later_start_keeps_the_admin_key(store: StoreClient, folder: DataFolder) -> None:
    first = await first_admin_key(AdminKeys(store), folder, bind=LOCAL)
    assert first is not None
    assert await first_admin_key(AdminKeys(store), folder, bind=LOCAL) is None
    assert await AdminKeys(store).authenticate(first) is not None


async def test_a_start_that_died_before_it_registered_its_key_is_made_good(
    store: StoreClient, folder: DataFolder
) -> None:
    _, key = mint("", "owner", at_s=0.0)
    folder.write_admin_key(key)
    assert await first_admin_key(AdminKeys(store), folder, bind=LOCAL) is None
    assert await AdminKeys(store).authenticate(key) is not None


@pytest.mark.parametrize("content", ["", " ", "changeme", "ega-", "sk-1234", "ega-0-secret"])
async def test_a_key_file_that_holds_no_key_ends_the_start_and_opens_nothing(
    store: StoreClient, folder: DataFolder, content: str
) -> None:
    """C117: neither an empty, nor a sample, nor a mistyped master key leaves the door open."""
    folder.write_admin_key(content)
    with pytest.raises(BootstrapError, match="does not hold an admin key"):
        await first_admin_key(AdminKeys(store), folder, bind=LOCAL)
    assert await AdminKeys(store).authenticate(content) is None


async def test_another_host_that_comes_second_writes_no_key(store: StoreClient, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = DataFolder(tmp_path / "a"), DataFolder(tmp_path / "b")
    assert await first_admin_key(AdminKeys(store), first, bind=LOCAL) is not None
    assert await first_admin_key(AdminKeys(store), second, bind=LOCAL) is None
    assert second.read_admin_key() is None


async def test_two_hosts_that_start_together_agree_on_one_key(store: StoreClient, tmp_path: Path) -> None:
    folders = [DataFolder(tmp_path / name) for name in "abcd"]
    for folder in folders:
        folder.path.mkdir()
    await asyncio.gather(*(first_admin_key(AdminKeys(store), folder, bind=LOCAL) for folder in folders))
    (written,) = {key for folder in folders if (key := folder.read_admin_key()) is not None}
    assert await AdminKeys(store).authenticate(written) is not None


async def test_no_admin_key_is_made_where_the_admin_plane_is_not_local(
    store: StoreClient, folder: DataFolder
) -> None:
    assert await first_admin_key(AdminKeys(store), folder, bind="0.0.0.0:8081") is None
    assert folder.read_admin_key() is None
    assert await AdminKeys(store).authenticate("") is None


def test_the_audit_key_is_made_once(folder: DataFolder) -> None:
    key = folder.audit_key()
    assert len(key) == 32
    assert folder.audit_key() == key
    assert (folder.path / "audit.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "short", "00" * 31])
def test_an_audit_key_that_is_none_is_refused(folder: DataFolder, content: str) -> None:
    (folder.path / "audit.key").write_text(content)
    with pytest.raises(DataFolderError, match=r"audit\.key"):
        folder.audit_key()


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
    ],
)
def test_what_counts_as_local(bind: str, expected: bool) -> None:
    assert is_loopback(bind) is expected


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_durable_store_that_may_evict_is_refused(store: StoreClient, policy: str) -> None:
    await refuse_evicting_policy(store)
    await store.execute("CONFIG", "SET", "maxmemory-policy", policy)
    with pytest.raises(BootstrapError, match=f"maxmemory-policy '{policy}'.*set it to noeviction"):
        await refuse_evicting_policy(store)


async def test_a_durable_store_that_is_away_is_waited_for(valkey: Valkey, store: StoreClient) -> None:
    await valkey.kill()
    waiting = asyncio.create_task(wait_for_store(store))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    await valkey.start()
    await asyncio.wait_for(waiting, 5)


def test_a_folder_is_held_by_one_and_says_by_whom(folder: DataFolder) -> None:
    with folder.held() as lock:
        lock.say(Holder(42, "127.0.0.1:8080", LOCAL))
        with pytest.raises(DataFolderError, match=r"in use by process 42, which serves 127\.0\.0\.1:8080"):
            folder.held().__enter__()
        assert folder.holder() == Holder(42, "127.0.0.1:8080", LOCAL)
    assert folder.holder() is None
    with folder.held():
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match="cannot use the data folder"):
        DataFolder(tmp_path / "file" / "data").held().__enter__()


@pytest.mark.parametrize("option", [None, socket.SO_REUSEPORT])
def test_a_taken_port_is_named_with_its_setting(option: int | None) -> None:
    """Also where a second Echogate could share it unnoticed."""
    with socket.socket() as taken:
        if option is not None:
            taken.setsockopt(socket.SOL_SOCKET, option, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = address_of(taken)
        with pytest.raises(
            BindError, match=rf"cannot listen on {address} \(server\.bind\): Address already in use"
        ):
            reserve(address, setting="server.bind")
