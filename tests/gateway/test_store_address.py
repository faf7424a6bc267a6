"""What a store URL means."""

from __future__ import annotations

import pytest

from gateway.store_address import StoreAddress


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "is_tls", "username", "password", "database"),
    [
        ("redis://", "localhost", 6379, None, False, None, None, 0),
        ("redis://store:7000/5", "store", 7000, None, False, None, None, 5),
        ("redis://:s%40t@store", "store", 6379, None, False, None, "s@t", 0),
        ("rediss://me:pw@[::1]:6380", "::1", 6380, None, True, "me", "pw", 0),
        ("unix:///run/a%20b.sock?db=2", "localhost", 6379, "/run/a b.sock", False, None, None, 2),
        ("unix://me:pw@/run/store.sock", "localhost", 6379, "/run/store.sock", False, "me", "pw", 0),
    ],
)
def test_url_is_read(
    url: str,
    host: str,
    port: int,
    path: str | None,
    is_tls: bool,
    username: str | None,
    password: str | None,
    database: int,
) -> None:
    assert StoreAddress.parse(url) == StoreAddress(host, port, path, is_tls, username, password, database)


@pytest.mark.parametrize(
    "url", ["http://:hunter2@store", "unix://", "redis://:hunter2@store/first", "redis://:hunter2@store:port"]
)
def test_bad_url_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (what it must not say is the point)
        StoreAddress.parse(url)
    assert "hunter2" not in str(caught.value)


def test_password_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(StoreAddress.parse("redis://:hunter2@store"))
