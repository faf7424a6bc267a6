"""Each way of telling the cache what to do means what its users expect; no way is half understood."""

from __future__ import annotations

import pytest

from gateway.controls import Controls, read_controls
from gateway.errors import InvalidRequest


@pytest.mark.parametrize(
    ("headers", "member", "expected"),
    [
        ({}, None, Controls()),
        ({b"cache-control": b"no-cache"}, None, Controls(reads=False)),
        ({b"cache-control": b"No-Store"}, None, Controls(reads=False, stores=False)),
        (
            {b"cache-control": b"max-age=60, only-if-cached"},
            None,
            Controls(max_age_s=60, only_if_cached=True),
        ),
        ({b"cache-control": b"no-transform"}, None, Controls()),
        ({b"x-cache-mode": b"off"}, None, Controls(mode="off")),
        ({b"x-cache-mode": b"exact"}, None, Controls(mode="exact")),
        ({b"x-cache-namespace": b"faq-2"}, None, Controls(namespace="faq-2")),
        ({b"x-cache-threshold": b"0.99"}, None, Controls(min_similarity=0.99)),
        ({}, {"no-cache": True}, Controls(reads=False)),
        ({}, {"no-store": True}, Controls(reads=False, stores=False)),
        ({}, {"use-cache": False}, Controls(mode="off")),
        ({}, {"ttl": 5, "s-maxage": 3, "namespace": "n"}, Controls(ttl_s=5, max_age_s=3, namespace="n")),
    ],
)
def test_each_spelling_means_what_its_users_expect(headers, member, expected):
    assert read_controls(headers, member, mode="semantic") == expected


@pytest.mark.parametrize(
    ("headers", "member"),
    [
        ({b"x-cache-mode": b"of"}, None),
        ({b"x-cache-threshold": b"nan"}, None),
        ({b"x-cache-threshold": b"1.2"}, None),
        ({b"x-cache-namespace": b"Not Good"}, None),
        ({b"cache-control": b"max-age=soon"}, None),
        ({}, {"nocache": True}),
        ({}, {"no-cache": "yes"}),
        ({}, {"ttl": -1}),
        ({}, "no-cache"),
    ],
)
def test_an_unknown_spelling_is_refused_not_half_applied(headers, member):
    with pytest.raises(InvalidRequest):
        read_controls(headers, member, mode="semantic")


def test_a_caller_can_narrow_the_deployments_mode_but_not_widen_it():
    assert read_controls({b"x-cache-mode": b"semantic"}, None, mode="exact").mode == "exact"
    assert read_controls({b"x-cache-mode": b"exact"}, None, mode="off").mode == "off"
