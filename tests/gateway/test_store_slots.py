"""Where a command belongs on a cluster, how it is split, and what servers say of the layout."""

from __future__ import annotations

import math
from typing import Any

import pytest
from redis.exceptions import ResponseError

from gateway.store.address import Argument, Command, Endpoint
from gateway.store.layout import layout_of
from gateway.store.replies import Redirected, as_exception
from gateway.store.slots import SLOTS, block_s_of, key_of, parts_of, slot_of

ASKED = Endpoint("10.0.0.9", 7000)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("123456789", 0x31C3),
        (b"123456789", 0x31C3),
        (7, slot_of("7")),
        ("foo{}{bar}", slot_of(b"foo{}{bar}")),
    ],
)
def test_slot_is_the_servers_own_sum(key: Argument, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize("key", ["{user1000}.following", b"a{user1000}b", "foo{user1000}{bar}"])
def test_keys_with_one_tag_lie_together(key: Argument) -> None:
    assert slot_of(key) == slot_of("user1000")


@pytest.mark.parametrize("key", ["foo{}{bar}", "foo{", "foo}{bar"])
def test_empty_or_open_braces_are_no_tag(key: str) -> None:
    assert slot_of(key) != slot_of("bar")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("GET", "k"), "k"),
        (("MGET", "k", "l"), "k"),
        (("EVALSHA", "abc", 2, "k", "l", "argument"), "k"),
        (("EVALSHA", "abc", 0, "argument"), None),
        (("XREAD", "COUNT", 1, "STREAMS", "k", "0-0"), "k"),
        (("XINFO", "STREAM", "k"), "k"),
        (("PING",), None),
        (("CONFIG", "GET", "maxmemory-policy"), None),
    ],
)
def test_key_that_decides(command: Command, key: Argument | None) -> None:
    assert key_of(command) == key


def test_command_of_unknown_form_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"'SORT'.*slots"):
        key_of(("SORT", "k"))


def test_mget_is_split_by_slot() -> None:
    parts = parts_of(("MGET", "{a}1", "{b}1", "{a}2"))
    assert parts is not None
    assert parts[slot_of("a")].command == ("MGET", "{a}1", "{a}2")
    assert parts[slot_of("a")].positions == (0, 2)
    assert parts[slot_of("b")].command == ("MGET", "{b}1")


def test_xread_is_split_with_its_places_and_without_its_block() -> None:
    parts = parts_of(
        ("XREAD", "COUNT", 5, "BLOCK", 100, "STREAMS", "{a}1", "{b}1", "{a}2", "1-0", "2-0", "3-0")
    )
    assert parts is not None
    assert parts[slot_of("a")].command == ("XREAD", "COUNT", 5, "STREAMS", "{a}1", "{a}2", "1-0", "3-0")
    assert parts[slot_of("b")].command == ("XREAD", "COUNT", 5, "STREAMS", "{b}1", "2-0")


def test_xread_of_several_slots_from_their_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="other than"):
        parts_of(("XREAD", "BLOCK", 100, "STREAMS", "{a}1", "{b}1", "1-0", "$"))


@pytest.mark.parametrize(
    "command", [("MGET", "{a}1", "{a}2"), ("XREAD", "BLOCK", 0, "STREAMS", "k", "0-0"), ("DEL", "a", "b")]
)
def test_what_lies_in_one_slot_is_not_split(command: Command) -> None:
    assert parts_of(command) is None


@pytest.mark.parametrize(
    ("options", "block_s"), [((), 0.0), (("BLOCK", 1500), 1.5), (("BLOCK", 0), math.inf)]
)
def test_time_to_block(options: Command, block_s: float) -> None:
    assert block_s_of(("XREAD", *options, "STREAMS", "BLOCK", "0-0")) == block_s


def ranges(*servers: list[Any], last: int = SLOTS - 1) -> list[Any]:
    return [[0, last, *servers]]


def test_layout_names_masters_and_replicas() -> None:
    layout = layout_of(
        ranges([b"10.0.0.1", 7001, b"id"], [b"host", 7002, b"id", []]), b"cluster_state:ok\r\n", told_by=ASKED
    )

    assert set(layout.masters) == {Endpoint("10.0.0.1", 7001)}
    assert layout.replicas == {Endpoint("host", 7002)}
    assert layout.trouble is None


@pytest.mark.parametrize("host", [None, b"", b"?"])
def test_server_that_does_not_know_its_host_is_the_one_asked(host: bytes | None) -> None:
    layout = layout_of(ranges([host, 7001, b"id"]), b"cluster_state:ok\r\n", told_by=ASKED)

    assert set(layout.masters) == {Endpoint("10.0.0.9", 7001)}


def test_layout_with_a_gap_is_trouble() -> None:
    layout = layout_of(ranges([b"h", 1, b"id"], last=SLOTS - 11), b"cluster_state:ok\r\n", told_by=ASKED)

    assert layout.masters[-1] is None
    assert layout.trouble == "10 slots of the cluster have no server"


def test_cluster_that_says_it_does_not_serve_is_trouble() -> None:
    layout = layout_of(ranges([b"h", 1, b"id"]), b"cluster_state:fail\r\n", told_by=ASKED)

    assert "cluster_state" in str(layout.trouble)


@pytest.mark.parametrize(
    ("message", "endpoint", "is_ask"),
    [
        ("MOVED 12 10.0.0.1:7001", Endpoint("10.0.0.1", 7001), False),
        ("ASK 12 10.0.0.1:7001", Endpoint("10.0.0.1", 7001), True),
        ("MOVED 12 :7001", Endpoint("10.0.0.9", 7001), False),
        ("MOVED 12 ?:7001", Endpoint("10.0.0.9", 7001), False),
        ("MOVED 12 ::1:7001", Endpoint("::1", 7001), False),
    ],
)
def test_redirection_is_read(message: str, endpoint: Endpoint, is_ask: bool) -> None:
    redirected = as_exception(message)
    assert isinstance(redirected, Redirected)
    assert (redirected.slot, redirected.endpoint(here=ASKED), redirected.is_ask) == (12, endpoint, is_ask)


def test_garbled_redirection_is_just_an_error() -> None:
    assert type(as_exception("MOVED somewhere")) is ResponseError
