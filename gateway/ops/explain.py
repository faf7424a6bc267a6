"""Tells why a request is answered as it is: one that could be asked now, or one of a while ago. It tells no texts."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from auth import Principal
from backends import BackendError, Pools, Version
from cache import Entry, Explanation, Neighbour, Question, Standing

from ..body import split
from ..call import read_wish
from ..controls import MODES, read_controls
from ..dialects import dialect_of
from ..eligibility import Plan, plan
from ..errors import InvalidRequest
from ..evidence.caching import Caching
from ..evidence.decisions import Decision
from ..evidence.desk import ExplainRequest
from ..evidence.partition_parts import parts_of

_STORE_S = 2.0


async def explain_request(
    wish: ExplainRequest, caching: Caching, pools: Pools, *, secret: bytes
) -> dict[str, Any]:
    """Raises ApiError for what would be refused, BackendError where no pool serves the model."""
    body = split(msgspec.json.encode(wish.request))
    dialect = dialect_of(body.values)
    model = read_wish(body.values, dialect=dialect).model
    try:
        version = pools.resolve(model)
    except BackendError as error:
        raise InvalidRequest(str(error), param="request.model") from error
    headers = {name.lower().encode(): value.encode() for name, value in wish.headers.items()}
    controls = read_controls(headers, body.values.get("cache"), mode="semantic")
    policy = caching.policies.of(wish.tenant, controls.namespace)
    controls = msgspec.structs.replace(controls, mode=min(controls.mode, policy.mode, key=MODES.index))
    principal = Principal(key_id="", tenant=wish.tenant, service=wish.service)
    planned = plan(
        body.values,
        dialect=dialect,
        principal=principal,
        version=version,
        controls=controls,
        cues=policy.cues,
    )
    told: dict[str, Any] = {
        "object": "cache.explanation",
        "model": version.model,
        "revision": version.revision,
        "mode": controls.mode,
        "eligibility": {"bypass": planned.bypass, "only_exact_because": planned.skip_semantic},
        "partition": _partition(planned, secret),
    }
    if planned.bypass is not None:
        return told | {"would": "BYPASS", "reason": planned.bypass}
    question = Question(
        partition=caching.cache.partition(planned.namespace, planned.material),
        text=planned.text,
        skip_semantic=planned.skip_semantic,
        max_age_s=controls.max_age_s,
        min_similarity=controls.min_similarity,
        is_shadow=controls.mode == "shadow",
    )
    found = await caching.cache.explain(question, deadline=time.monotonic() + _STORE_S)
    standing = caching.cache.standing(planned.namespace)
    return told | {
        "namespace": planned.namespace,
        "standing": standing_told(standing),
        "exact_key": f"{found.question_id:016x}",
        "canonical_key": _number(found.canonical_id),
        "would": found.would,
        "reason": found.reason,
        "entry": _entry(found, version),
        "neighbours": [
            _neighbour(each, version, least_score=standing.least_score) for each in found.neighbours
        ],
    }


def explain_past(decision: Decision) -> dict[str, Any]:
    is_hit = decision.outcome == "hit"
    return {
        "object": "cache.decision",
        "request_id": decision.request_id,
        "tenant": decision.tenant,
        "service": decision.service,
        "key_id": decision.key_id,
        "at": decision.at_s,
        "model": decision.model,
        "namespace": decision.namespace,
        "outcome": decision.outcome,
        "tier": decision.tier,
        "reason": decision.reason,
        "similarity": decision.similarity,
        "exact_key": f"{decision.question_id:016x}",
        "entry_id": _number(decision.entry_id),
        "alias_id": _number(decision.alias_id),
        "was_served": is_hit,
        "verdict": decision.verdict,
        "standing": decision.state,
    }


def standing_told(standing: Standing) -> dict[str, Any]:
    found = standing.wrong_share
    share = found.wrong / found.audits if found.audits else None
    shown = standing.corrected or (share, found.low, found.high)
    return {
        "state": standing.state,
        "reason": standing.reason,
        "since": standing.since_s or None,
        "version": standing.version,
        "least_score": standing.least_score,
        "weights": None if standing.weights is None else list(standing.weights.mean),
        "audits_learned_from": 0 if standing.weights is None else standing.weights.audits,
        "evidence": standing.evidence,
        "drift": {
            "divergence": standing.divergence,
            "unknown": standing.unknown,
            "alarms": standing.drift_alarms,
        },
        "f": {
            "wrong": found.wrong,
            "audits": found.audits,
            "share": shown[0],
            "low": shown[1],
            "high": shown[2],
            "found": share,
            "judged_by": list(standing.judges),
            "is_corrected": standing.corrected is not None,
        },
        "audits": standing.audits,
        "reported_wrong": standing.reported_wrong,
    }


def _partition(planned: Plan, secret: bytes) -> dict[str, str] | None:
    if planned.bypass is not None:
        return None
    return {name: digest.hex() for name, digest in parts_of(planned.material, secret=secret).items()}


def _number(named: int | None) -> str | None:
    return None if named is None else f"{named:016x}"


def _origin(entry: Entry, version: Version) -> dict[str, str]:
    """How the answer came about. The version is that which is asked for: no other is in the partition."""
    return {**entry.answer.origin, "model": version.model, "revision": version.revision}


def _entry(found: Explanation, version: Version) -> dict[str, Any] | None:
    entry = found.entry
    if entry is None:
        return None
    return {
        "id": f"{entry.entry_id:016x}",
        "age_s": max(0.0, time.time() - entry.created_at_s),
        "expires_in_s": entry.expires_at_s - time.time(),
        "origin": _origin(entry, version),
    }


def _neighbour(each: Neighbour, version: Version, *, least_score: float | None) -> dict[str, Any]:
    return {
        "id": f"{each.entry.entry_id:016x}",
        "similarity": each.similarity,
        "age_s": each.age_s,
        "origin": _origin(each.entry, version),
        "is_accepted": each.verdict.is_accepted,
        "reason": each.verdict.reason,
        "threshold": each.verdict.threshold,
        "score": each.score,
        "least_score": None if each.score is None else least_score,
        "features": dict(each.verdict.features),
        "vetoes": [name for name, applies in each.vetoes.items() if applies],
        "vetoes_passed": [name for name, applies in each.vetoes.items() if not applies],
        "alias_of": _number(each.root_id),
        "has_equal_form": each.has_equal_form,
    }
