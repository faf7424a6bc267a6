"""Which failed logins become an audit record."""

from __future__ import annotations

from auth import Burst, FailureBursts


def test_burst_of_an_address_is_given_once_when_its_minute_is_over() -> None:
    bursts = FailureBursts(least=3)
    for moment in (100.0, 101.0, 130.0):
        bursts.note("192.0.2.1", "abcdefghijkl", at_s=moment)

    assert bursts.due(159.9) == []
    assert bursts.due(160.0) == [Burst("192.0.2.1", "abcdefghijkl", 3, 100.0, 130.0)]
    assert bursts.due(160.0) == []


def test_few_failures_are_no_burst() -> None:
    bursts = FailureBursts(least=3)
    for moment in (100.0, 101.0):
        bursts.note("192.0.2.1", None, at_s=moment)

    assert bursts.due(200.0) == []
    assert len(bursts) == 0


def test_address_that_tries_many_keys_is_one_burst() -> None:
    bursts = FailureBursts(least=3)
    for number in range(5):
        bursts.note("192.0.2.1", f"key{number}", at_s=100.0 + number)

    assert bursts.due(200.0) == [Burst("192.0.2.1", None, 5, 100.0, 104.0)]


def test_key_that_many_addresses_try_is_one_burst() -> None:
    bursts = FailureBursts(least=3)
    for number in range(5):
        bursts.note(f"192.0.2.{number}", "abcdefghijkl", at_s=100.0)

    assert bursts.due(200.0) == [Burst(None, "abcdefghijkl", 5, 100.0, 100.0)]


def test_burst_that_goes_on_is_given_once_a_minute() -> None:
    bursts = FailureBursts(least=3)
    given = []
    for moment in range(180):
        bursts.note("192.0.2.1", None, at_s=float(moment))
        given += bursts.due(float(moment))
    given += bursts.due(300.0)

    assert [burst.failures for burst in given] == [61, 61, 58]


def test_flood_of_addresses_is_bounded_and_told_as_others() -> None:
    bursts = FailureBursts(least=3)
    for number in range(5_000):
        bursts.note(f"address-{number}", f"key-{number}", at_s=100.0)

    assert len(bursts) == 1_001
    assert [(burst.source_ip, burst.key_id) for burst in bursts.due(200.0)] == [("others", None)]


def test_burst_as_an_audit_record_says_who_and_how_often() -> None:
    record = Burst("192.0.2.1", "abcdefghijkl", 7, 100.0, 130.0).as_record()

    assert (record.actor, record.action, record.outcome) == ("192.0.2.1", "auth.failures", "refused")
    assert record.target == "key abcdefghijkl"
    assert record.after == {"failures": 7, "first_at_s": 100.0, "last_at_s": 130.0}
