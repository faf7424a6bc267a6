"""Says what holds in a cache namespace: the configuration's word, unless an admin switched its mode since.

A namespace is a tenant's: `acme` and `umbrella` each have a `default`. The cache itself knows them by one label that
names the model as well, since each model's answers are right or wrong for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cache import Rules

from ..answers import Keeping, Kind
from ..controls import Mode, Replay
from ..cues import Cue, Treatment
from ..eligibility import CuePolicy
from ..settings.cache import AnswerSettings, CacheSettings, CueSettings


class NamespacePolicy(msgspec.Struct, frozen=True):
    """No answer is kept, or served, beyond `ttl_s`: not one that was stored while more was allowed either."""

    mode: Mode
    cues: CuePolicy
    ttl_s: float
    keeping: Mapping[Kind, Keeping]
    replay: Replay


Name = tuple[str, str]  # tenant and namespace


class CachePolicies:
    """`switched` follows control records, and is read from the store at the start."""

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._usual = _policy(settings)
        self._named = {name: _policy(settings.of(name)) for name in settings.namespaces}
        self._switched: dict[Name, Mode] = {}

    def __repr__(self) -> str:
        return f"CachePolicies({self._usual.mode}, {sorted(self._named)}, {len(self._switched)} switched)"

    @property
    def may_be_similar(self) -> bool:
        """Whether similar questions are looked for anywhere, going by the configuration."""
        return any(policy.mode in ("shadow", "semantic") for policy in (self._usual, *self._named.values()))

    def of(self, tenant: str, namespace: str) -> NamespacePolicy:
        policy = self._named.get(namespace, self._usual)
        switched = self._switched.get((tenant, namespace)) if self._switched else None
        return policy if switched is None else msgspec.structs.replace(policy, mode=switched)

    def rules(self, label: str) -> Rules:
        """Of what the cache calls a namespace: `tenant/namespace/model`."""
        tenant, namespace, _ = split_label(label)
        settings = self._settings.of(namespace)
        lenders = f"{tenant}/" if settings.borrow else ""
        return Rules(settings.policy, settings.threshold, settings.budget, settings.strict, lenders)

    def switch(self, tenant: str, namespace: str, mode: Mode | None) -> None:
        """None: as configured."""
        if mode is None:
            self._switched.pop((tenant, namespace), None)
        else:
            self._switched[tenant, namespace] = mode

    def switch_all(self, modes: Mapping[Name, Mode]) -> None:
        self._switched = dict(modes)


def label_of(tenant: str, namespace: str, model: str) -> str:
    return f"{tenant}/{namespace}/{model}"


def split_label(label: str) -> tuple[str, str, str]:
    """Neither a tenant's nor a namespace's name has a slash; a model's may."""
    tenant, namespace, model = label.split("/", 2)
    return tenant, namespace, model


def _policy(settings: CacheSettings) -> NamespacePolicy:
    return NamespacePolicy(
        settings.mode,
        _cue_policy(settings.cues),
        settings.ttl_s,
        _keeping(settings.answers),
        settings.replay,
    )


def _keeping(answers: AnswerSettings) -> Mapping[Kind, Keeping]:
    return {
        "text": answers.text,
        "reasoning": answers.reasoning,
        "tool-calls": answers.tool_calls,
        "refusal": answers.refusals,
    }


def _cue_policy(cues: CueSettings) -> CuePolicy:
    treatments: dict[Cue, Treatment] = {
        "personal": cues.personal,
        "time-bound": cues.time_bound,
        "freshness": cues.freshness,
        "low-information": cues.low_information,
    }
    return CuePolicy(treatments, cues.time_bound_ttl_s)
