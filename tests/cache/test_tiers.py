"""The tiers between equal and near: typed otherwise, of one canonical form, near to an alias. On fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cache import LITERAL, Answer, EmbedQueue, Hit, Miss, NoEmbedder, Partition, Policy, Served
from cache.evidence.ledger import Standing
from cache.evidence.ruling import Ruling
from cache.testing import MemoryEntries
from tests.cache.house import SIMILAR, TEXT, House, Moody, built, reason
from tests.cache.parts import asked, soon

ASKED_ZH, ALIKE_ZH = "请问如何学好英语口语", "怎样学好英语口语呢？"
YES, NO = Answer("yes", b"yes"), Answer("no", b"no")


@pytest.fixture
async def house() -> AsyncIterator[House]:
    embedder = Moody()
    queue = EmbedQueue(embedder)
    yield built(Policy(threshold=0.8), queue, embedder)
    queue.close()


def ruling(house: House) -> Ruling:
    return house.cache.evidence.of("team-a")


def hit(outcome: Hit | Miss) -> Hit:
    assert isinstance(outcome, Hit), outcome
    return outcome


def id_of(house: House, text: str) -> int:

    return house.cache.entry_id(asked(text))


def served(house: House, text: str, found: Hit) -> Served:
    of = Partition("team-a", house.cache.partition("team-a", b"model=m").digest)
    answer_id = house.cache.answer_id(found.entry.answer)
    question_id = id_of(house, text)
    return Served(of, question_id, found.entry.entry_id, answer_id, found.similarity, found.alias_id)


class TestTypedOtherwise:
    async def test_it_is_the_same_question_in_one_round_trip(self, house: House) -> None:
        await house.teach("What is TLS?")
        found = hit(await house.ask("what  is tls"))
        assert (found.tier, found.reason, found.similarity, found.is_exact) == (
            "normalised",
            "normalised",
            1.0,
            True,
        )
        assert [step.name for step in found.steps] == ["exact"]
        assert hit(await house.ask("What is TLS?")).reason is None

    async def test_a_newer_answer_is_for_all_ways_of_typing(self, house: House) -> None:
        await house.teach("What is TLS?")
        house.clock.at_s += 10.0
        await house.teach("what is tls", YES, max_age_s=5.0)
        assert hit(await house.ask("What is TLS?", max_age_s=5.0)).entry.answer == YES

    async def test_what_may_mean_something_else_is_another_question(self, house: House) -> None:
        await house.teach("Did they tell us?", skip_semantic="mode-exact")
        assert reason(await house.ask("Did they tell US?", skip_semantic="mode-exact")) == "mode-exact"

    async def test_a_wrong_answer_is_blocked_for_all_ways_of_typing(self, house: House) -> None:
        await house.teach("What is TLS?")
        found = hit(await house.ask("what is tls"))
        await house.cache.reject(served(house, "what is tls", found), key="k")
        for text in ("What is TLS?", "what is tls", "WHAT IS TLS"):
            assert reason(await house.ask(text)) == "absent"

    async def test_it_works_where_only_equal_questions_may_hit_and_whatever_cosine_is_asked_for(
        self, house: House
    ) -> None:
        await house.teach("What is TLS?")
        found = hit(await house.ask("what is tls", skip_semantic="mode-exact", min_similarity=1.0))
        assert found.tier == "normalised"

    @pytest.mark.parametrize(
        ("asked_first", "other"), [(TEXT, TEXT.upper()), (ASKED_ZH, ALIKE_ZH), (TEXT, SIMILAR)]
    )
    async def test_an_answer_for_the_very_text_is_for_no_other_even_after_one_that_was(
        self, house: House, asked_first: str, other: str
    ) -> None:
        await house.teach(asked_first)
        assert isinstance(await house.ask(other), Hit)
        house.clock.at_s += 10.0
        await house.teach(asked_first, Answer("call", b"call", LITERAL), max_age_s=5.0)
        assert isinstance(await house.ask(other), Miss)
        assert hit(await house.ask(asked_first)).entry.answer.text == "call"


class TestOfOneCanonicalForm:
    async def test_it_is_found_though_no_embedder_reads_it(self, house: House) -> None:
        await house.teach(ASKED_ZH, YES)
        assert len(house.spaces) == 0
        found = hit(await house.ask(ALIKE_ZH))
        assert (found.tier, found.reason, found.similarity) == ("canonical", "canonical", 1.0)
        assert (found.entry.answer, found.is_exact) == (YES, False)

    async def test_without_an_embedder_too(self) -> None:
        house = built(Policy(), NoEmbedder(), Moody())
        await house.teach(ASKED_ZH, YES)
        assert hit(await house.ask(ALIKE_ZH)).tier == "canonical"

    @pytest.mark.parametrize("other", ["怎样学好英语写作", "怎样学好日语口语", "怎样学不好英语口语"])
    async def test_another_form_is_a_miss(self, house: House, other: str) -> None:
        await house.teach(ASKED_ZH)
        assert isinstance(await house.ask(other), Miss)

    async def test_a_veto_still_counts(self, house: House) -> None:
        await house.teach("三国演义3.10版怎么下载")
        other = "三国演义31.0版怎么下载"
        assert house.cache.canonical_id(asked(other)) == house.cache.canonical_id(
            asked("三国演义3.10版怎么下载")
        )
        assert isinstance(await house.ask(other), Miss)

    async def test_english_is_not_served_by_it(self) -> None:
        house = built(Policy(), NoEmbedder(), Moody())
        await house.teach("What is the best way to learn Latin?")
        assert reason(await house.ask("What is the best method to learn Latin?")) == "no-embedder"

    async def test_nothing_is_left_of_a_greeting_to_be_found_by(self, house: House) -> None:
        await house.teach("你好啊")
        assert isinstance(await house.ask("谢谢大家"), Miss)

    @pytest.mark.parametrize(
        "narrower", [{"skip_semantic": "mode-exact"}, {"skip_semantic": "personal"}, {"min_similarity": 0.5}]
    )
    async def test_it_is_off_where_equal_questions_or_a_cosine_were_asked_for(
        self, house: House, narrower: dict[str, object]
    ) -> None:
        await house.teach(ASKED_ZH)
        assert isinstance(await house.ask(ALIKE_ZH, **narrower), Miss)

    async def test_an_answer_that_is_for_the_very_text_is_not_found_by_it(self, house: House) -> None:
        await house.teach(ASKED_ZH, skip_semantic="mode-exact")
        assert isinstance(await house.ask(ALIKE_ZH), Miss)

    @pytest.mark.parametrize("state", ["tripped", "shadow"])
    async def test_it_is_withheld_as_any_similar_answer_and_then_audited(
        self, house: House, state: str
    ) -> None:
        await house.teach(ASKED_ZH)
        if state == "tripped":
            ruling(house).standing = Standing(state="tripped")
        missed = await house.ask(ALIKE_ZH, is_shadow=state == "shadow")
        assert reason(missed) == state
        assert isinstance(missed, Miss)
        assert missed.ticket is not None
        assert missed.ticket.near is not None
        assert (missed.ticket.near.would_serve, missed.ticket.near.similarity) == (True, 1.0)

    async def test_one_that_was_wrong_is_not_given_again(self, house: House) -> None:
        await house.teach(ASKED_ZH)
        found = hit(await house.ask(ALIKE_ZH))
        await house.cache.reject(served(house, ALIKE_ZH, found), key="k")
        assert isinstance(await house.ask(ALIKE_ZH), Miss)
        assert hit(await house.ask(ASKED_ZH)).tier == "exact"

    async def test_one_found_wrong_by_an_audit_answers_its_own_question_only(self, house: House) -> None:
        await house.teach(ASKED_ZH)
        ruling(house).raised = {id_of(house, ASKED_ZH): (1.0, house.clock.at_s + 1)}
        assert isinstance(await house.ask(ALIKE_ZH), Miss)
        assert hit(await house.ask(ASKED_ZH)).tier == "exact"

    async def test_too_old_an_answer_is_none_and_one_that_is_gone_does_no_harm(self, house: House) -> None:
        await house.teach(ASKED_ZH)
        house.clock.at_s += 10.0
        assert isinstance(await house.ask(ALIKE_ZH, max_age_s=5.0), Miss)
        await house.cache.flush("team-a")
        assert isinstance(await house.ask(ALIKE_ZH), Miss)

    async def test_another_partition_does_not_see_it(self, house: House) -> None:
        await house.teach(ASKED_ZH)
        for other in (house.cache.partition("team-a", b"other"), house.cache.partition("team-b", b"model=m")):
            assert isinstance(await house.ask(ALIKE_ZH, partition=other), Miss)

    async def test_a_store_going_down_in_between_is_a_miss(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await house.teach(ASKED_ZH)

        async def fetch(*_: object, **__: object) -> list[None]:
            house.entries.is_down = True
            return await MemoryEntries.fetch(house.entries, *_, **__)  # type: ignore[arg-type, return-value]

        monkeypatch.setattr(house.entries, "fetch", fetch)
        assert isinstance(await house.ask(ALIKE_ZH), Miss)


class TestNearAnAlias:
    """TEXT is an alias of another question, whose answer was found to be right for it as well."""

    ROOT = "what do i do about a forgotten shop login"

    async def taught(self, house: House) -> House:
        await house.teach(self.ROOT, YES)
        house.clock.at_s += 1.0
        await house.teach(TEXT, NO)
        ruling(house).aliases = {id_of(house, TEXT): id_of(house, self.ROOT)}
        return house

    async def test_the_answer_is_that_of_the_root(self, house: House) -> None:
        await self.taught(house)
        found = hit(await house.ask(SIMILAR))
        assert (found.tier, found.reason, found.entry.answer) == ("alias", "alias", YES)
        assert (found.alias_id, found.is_exact) == (id_of(house, TEXT), False)
        assert 0.8 <= found.similarity < 1.0

    async def test_the_aliass_own_answer_is_still_its_exact_one(self, house: House) -> None:
        await self.taught(house)
        found = hit(await house.ask(TEXT))
        assert (found.tier, found.entry.answer) == ("exact", NO)

    @pytest.mark.parametrize("why", ["gone", "blocked", "vetoed", "raised", "too-old"])
    async def test_a_root_that_may_not_answer_leaves_it_to_the_alias(self, house: House, why: str) -> None:
        await self.taught(house)
        root, max_age_s = id_of(house, self.ROOT), None
        if why == "gone":
            await house.cache.forget("team-a", root)
        elif why == "blocked":
            ruling(house).blocked.add(id_of(house, SIMILAR), root)
        elif why == "vetoed":
            await house.teach("what do i do about 3 forgotten shop logins", YES)
            vetoed = id_of(house, "what do i do about 3 forgotten shop logins")
            ruling(house).aliases = {id_of(house, TEXT): vetoed}
        elif why == "raised":
            ruling(house).raised = {root: (1.0, house.clock.at_s)}
        else:
            max_age_s = 0.5
        found = hit(await house.ask(SIMILAR, max_age_s=max_age_s))
        assert (found.tier, found.entry.answer, found.alias_id) == ("semantic", NO, None)

    async def test_a_wrong_one_is_blocked_by_whichever_way_it_came(self, house: House) -> None:
        await self.taught(house)
        found = hit(await house.ask(SIMILAR))
        await house.cache.reject(served(house, SIMILAR, found), key="k")
        assert isinstance(await house.ask(SIMILAR), Miss)
        assert hit(await house.ask(self.ROOT)).entry.answer == YES
        another = "for the shop reset my password how do i do"  # and an alias too
        await house.teach(another, NO, skip_semantic=None, max_age_s=0.0)
        ruling(house).aliases = {id_of(house, text): id_of(house, self.ROOT) for text in (TEXT, another)}
        assert hit(await house.ask(SIMILAR)).entry.answer == NO

    async def test_while_withheld_the_roots_answer_is_what_is_audited(self, house: House) -> None:
        await self.taught(house)
        missed = await house.ask(SIMILAR, is_shadow=True)
        assert isinstance(missed, Miss)
        assert missed.ticket is not None
        near = missed.ticket.near
        assert near is not None
        assert (near.entry_id, near.alias_id) == (id_of(house, self.ROOT), id_of(house, TEXT))


async def test_an_explanation_is_no_traffic(house: House, monkeypatch: pytest.MonkeyPatch) -> None:

    noted: list[object] = []
    monkeypatch.setattr(house.cache.evidence, "note_hit", lambda *each: noted.append(each))
    await house.teach(TEXT)
    assert (await house.cache.explain(asked(SIMILAR), deadline=soon())).would == "HIT-SEMANTIC"
    assert noted == []
    await house.ask(SIMILAR)
    assert len(noted) == 1
