"""Whether a reader of a trimmed stream has seen all of it: told by counting, whatever happens to the stream."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cache.replica.place import BEGINNING, End, Place, Trail

ACTS = st.sampled_from(["add", "add", "add", "read", "look", "trim", "keep a copy", "empty", "take the copy"])


def name(moment: int) -> bytes:
    return b"%d-0" % moment


@dataclass(frozen=True)
class Stream:
    """As a server keeps it. `all_added` is what a reader that missed nothing holds."""

    items: tuple[int, ...] = ()
    all_added: frozenset[int] = frozenset()

    def added(self, moment: int) -> Stream:
        return Stream((*self.items, moment), self.all_added | {moment})

    @property
    def end(self) -> End:
        last = name(max(self.all_added)) if self.all_added else BEGINNING
        return End(last, len(self.all_added), len(self.items))


class Reader:
    """Follows a stream, and takes all there is whenever it is told that it missed something."""

    def __init__(self) -> None:
        self.trail = Trail(Place())
        self.holds: set[int] = set()
        self.began_anew = 0

    def read(self, stream: Stream) -> None:
        told = False
        for moment in [each for each in stream.items if each > int(self.trail.item_id[:-2])]:
            self.holds.add(moment)
            told |= self.trail.step(name(moment)) is not None
        if told:
            self.look(stream)

    def look(self, stream: Stream) -> None:
        if self.trail.look_at(stream.end) is not None:
            self.trail, self.holds = Trail(stream.end.place), set(stream.all_added)
            self.began_anew += 1


def test_at_the_end_of_a_stream_that_counts_as_we_do_all_is_well() -> None:
    trail = Trail(Place(name(7), 3))
    assert trail.look_at(End(name(7), 3, 0)) is None
    assert trail.behind == 0


def test_what_was_trimmed_before_it_was_read_is_noticed_at_once() -> None:
    assert Trail(Place(name(7), 3)).look_at(End(name(20), 30, 10)) == "behind"


def test_an_end_before_our_place_is_another_stream() -> None:
    assert Trail(Place(name(7), 3)).look_at(End(name(6), 3, 3)) == "reset"
    assert Trail(Place(name(7), 3)).look_at(End()) == "reset"


def test_the_same_end_with_another_count_is_another_stream() -> None:
    assert Trail(Place(name(7), 3)).look_at(End(name(7), 4, 4)) == "reset"


def test_under_load_it_is_checked_at_the_item_that_was_last_when_it_was_looked() -> None:
    trail = Trail(Place(name(7), 3))
    assert trail.look_at(End(name(9), 5, 5)) is None
    assert [trail.step(name(8)), trail.step(name(9)), trail.step(name(10))] == [None, None, None]
    trail = Trail(Place(name(7), 3))
    trail.look_at(End(name(9), 5, 5))
    assert trail.step(name(9)) == "behind"


@given(st.lists(ACTS, max_size=60))
def test_whatever_happens_a_reader_that_looks_ends_with_what_was_added_and_no_more(acts: list[str]) -> None:
    stream, copy, reader = Stream(), Stream(), Reader()
    is_harmless = True
    for moment, act in enumerate([*acts, "read", "look"], 1):
        match act:
            case "add":
                stream = stream.added(moment)
            case "trim":
                is_harmless &= set(stream.items[:1]) <= reader.holds
                stream = Stream(stream.items[1:], stream.all_added)
            case "keep a copy":
                copy = stream
            case "empty" | "take the copy":
                is_harmless = False
                stream = Stream() if act == "empty" else copy
            case "read":
                reader.read(stream)
            case "look":
                reader.look(stream)
    assert reader.holds == stream.all_added
    if is_harmless:
        assert reader.began_anew == 0
