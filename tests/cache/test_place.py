"""Whether a reader of a trimmed stream has seen all of it: told by counting, whatever happens to the stream."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from cache.replica.place import BEGINNING, End, Place, Trail


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


def test_a_later_end_without_more_items_is_another_stream() -> None:
    """Emptied since, filled with as much, and that trimmed away."""
    assert Trail(Place(name(7), 3)).look_at(End(name(9), 3, 0)) == "reset"


def test_under_load_it_is_checked_at_the_item_that_was_last_when_it_was_looked() -> None:
    trail = Trail(Place(name(7), 3))
    assert trail.look_at(End(name(9), 5, 5)) is None
    assert [trail.step(name(8)), trail.step(name(9)), trail.step(name(10))] == [None, None, None]
    trail = Trail(Place(name(7), 3))
    trail.look_at(End(name(9), 5, 5))
    assert trail.step(name(9)) == "behind"


@dataclass(frozen=True)
class Round:
    """What happens between two looks: one thing at most goes wrong."""

    added: int
    is_read: bool
    wrong: str  # "nothing", "trim", "empty", or "lag": a replica takes over that lacks the last ones
    items: int
    added_after: int


ROUNDS = st.lists(
    st.builds(
        Round,
        st.integers(0, 4),
        st.booleans(),
        st.sampled_from(["nothing", "trim", "empty", "lag"]),
        st.integers(1, 4),
        st.integers(0, 4),
    ),
    max_size=12,
)


@given(ROUNDS)
def test_whatever_goes_wrong_after_the_next_look_a_reader_holds_what_was_added_and_no_more(
    rounds: list[Round],
) -> None:
    stream, reader, moments = Stream(), Reader(), count(1)
    for each in rounds:
        for _ in range(each.added):
            stream = stream.added(next(moments))
        if each.is_read:
            reader.read(stream)
        before, is_harmless = reader.began_anew, each.wrong == "nothing"
        match each.wrong:
            case "trim":
                is_harmless = set(stream.items[: each.items]) <= reader.holds
                stream = Stream(stream.items[each.items :], stream.all_added)
            case "empty":
                stream = Stream()
            case "lag":
                lost = set(stream.items[-each.items :])
                stream = Stream(tuple(sorted(set(stream.items) - lost)), stream.all_added - lost)
        for _ in range(each.added_after):
            stream = stream.added(next(moments))
        reader.read(stream)
        reader.look(stream)
        assert reader.holds == stream.all_added
        if is_harmless:
            assert reader.began_anew == before
