"""What a store URL means."""

from __future__ import annotations

import pytest

from gateway.store.address import Endpoint, Login, StoreAddress


@pytest.mark.parametrize(
    ("url", "endpoint", "login"),
    [
        ("redis://", Endpoint("localhost", 6379), Login()),
        ("redis://store:7000/5", Endpoint("store", 7000), Login(database=5)),
        ("redis://:s%40t@store", Endpoint("store", 6379), Login(password="s@t")),
        ("rediss://me:pw@[::1]:6380", Endpoint("::1", 6380), Login("me", "pw", is_tls=True)),
        ("unix:///run/a%20b.sock?db=2", Endpoint("localhost", 6379, "/run/a b.sock"), Login(database=2)),
        ("unix://me:pw@/run/store.sock", Endpoint("localhost", 6379, "/run/store.sock"), Login("me", "pw")),
    ],
)
def test_url_of_one_server_is_read(url: str, endpoint: Endpoint, login: Login) -> None:
    assert StoreAddress.parse(url) == StoreAddress("server", (endpoint,), login)


def test_url_of_a_cluster_names_servers_to_begin_with() -> None:
    address = StoreAddress.parse("rediss+cluster://me:pw@one:7000,two,[::1]:7002")

    endpoints = (Endpoint("one", 7000), Endpoint("two", 6379), Endpoint("::1", 7002))
    assert address == StoreAddress("cluster", endpoints, Login("me", "pw", is_tls=True))


def test_url_with_sentinels_names_the_master_and_both_logins() -> None:
    address = StoreAddress.parse("redis+sentinel://:pw@one,two:26380/mymaster?db=3&sentinel_password=watch")

    assert address == StoreAddress(
        "sentinel",
        (Endpoint("one", 26379), Endpoint("two", 26380)),
        Login(password="pw", database=3),
        master_name="mymaster",
        sentinel_login=Login(password="watch"),
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://:hunter2@store", "redis://"),
        ("unix://", "path of a socket"),
        ("redis://:hunter2@store/first", "is a number"),
        ("redis://:hunter2@store:port", "port"),
        ("redis://:hunter2@one,two", "redis+cluster://"),
        ("redis+cluster://:hunter2@one/1", "no database"),
        ("redis+sentinel://:hunter2@one,two", "master's name"),
        ("redis+cluster://:hunter2/0@one:1", "port"),
    ],
)
def test_bad_url_is_refused_without_showing_its_password(url: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (what it must not say is the point)
        StoreAddress.parse(url)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_password_is_not_in_the_repr() -> None:
    address = StoreAddress.parse("redis+sentinel://:hunter2@store/name?sentinel_password=hunter2")
    assert "hunter2" not in repr(address)
