"""What an event says: its type, and which backends it may name."""

from __future__ import annotations

import json

import pytest

from gateway.admin.events import read_event
from gateway.errors import InvalidRequest


def test_a_structured_event_names_its_subject_and_places_in_its_data() -> None:
    event = {"type": "t", "subject": "vms/a", "data": {"ip": "10.0.0.1", "other": "x"}}
    assert read_event({}, json.dumps(event).encode()) == ("t", {"vms/a", "a", "10.0.0.1"})


def test_a_binary_event_has_its_type_in_a_header() -> None:
    headers = {"ce-type": "t", "ce-subject": "a"}
    assert read_event(headers, b'{"host": "h"}') == ("t", {"a", "h"})
    assert read_event(headers, b"") == ("t", {"a"})


def test_an_eventbridge_event_is_taken_as_it_comes() -> None:
    event = {"detail-type": "EC2 Spot Instance Interruption Warning", "detail": {"instance-id": "i-1"}}
    assert read_event({}, json.dumps(event).encode()) == ("EC2 Spot Instance Interruption Warning", {"i-1"})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"type": 1}', b"null", b"\xff"])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_event({}, body)
