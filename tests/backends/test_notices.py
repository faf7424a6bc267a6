"""What events of clouds and operators ask for, and which addresses are never connected to."""

from __future__ import annotations

import pytest

from backends import AddressRule, read_notice


@pytest.mark.parametrize(
    ("event_type", "action", "cause"),
    [
        ("EC2 Spot Instance Interruption Warning", "drain", "preemption"),
        ("com.amazonaws.ec2.spot-instance-interruption", "drain", "preemption"),
        ("Microsoft.Compute.ScheduledEvents.Preempt", "drain", "preemption"),
        ("compute.instances.preempted", "drain", "preemption"),
        ("io.kubernetes.pod.evicted", "drain", "preemption"),
        ("EC2 Instance-terminate Lifecycle Action", "drain", "scale-in"),
        ("Microsoft.Compute.ScheduledEvents.Reboot", "drain", "maintenance"),
        ("Microsoft.Compute.ScheduledEvents.Freeze", "drain", "maintenance"),
        ("com.example.maintenance.started", "drain", "maintenance"),
        ("com.example.maintenance.completed", "restore", None),
        ("com.example.backend.restored", "restore", None),
    ],
)
def test_an_event_type_asks_for_an_action(event_type: str, action: str, cause: str | None) -> None:
    notice = read_notice(event_type)
    assert notice is not None
    assert (notice.action, notice.cause) == (action, cause)


@pytest.mark.parametrize("event_type", ["EC2 Instance Rebalance Recommendation", "com.example.deployed", ""])
def test_other_events_ask_for_nothing(event_type: str) -> None:
    assert read_notice(event_type) is None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::",
        "64:ff9b::a9fe:a9fe",
        "100.100.100.200",
    ],
)
def test_metadata_services_are_not_connected_to(address: str) -> None:
    assert not AddressRule().permits(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "192.168.1.1", "::1", "fd12::1", "8.8.8.8"])
def test_private_and_public_addresses_are(address: str) -> None:
    assert AddressRule().permits(address)


def test_an_operator_may_allow_and_deny_more() -> None:
    rule = AddressRule(denied=["10.0.0.0/8"], allowed=["10.1.0.0/16"])
    assert [rule.permits(address) for address in ("10.1.2.3", "10.2.2.3", "169.254.1.1")] == [
        True,
        False,
        True,
    ]
