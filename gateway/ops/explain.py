"""Tells why a request is answered as it is: one that could be asked now, or one of a while ago. It tells no texts."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from auth import Principal
from backends import BackendError, Pools
from cache import Explanation, Neighbour, Question, Standing

from ..body import split
from ..call import read_wish
from ..controls import MODES, read_controls
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
    model = read_wish(body.values).model
    try:
        version = pools.resolve(model)
    except BackendError as error:
        raise InvalidRequest(str(error), param="request.model") from error
    headers = {name.lower().encode(): value.encode() for name, value in wish.headers.items()}
    controls = read_controls(headers, body.values.get("cache"), mode="semantic")
    policy = caching.policies.of(wish.tenant, controls.namespace)
    controls = msgspec.structs.replace(controls, mode=min(controls.mode, policy.mode, key=MODES.index))
    principal = Principal(key_id="", tenant=wish.tenant, service=wish.service)
    planned = plan(body.values, principal=principal, version=version, controls=controls, cues=policy.cues)
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
        "would": found.would,
        "reason": found.reason,
        "entry": _entry(found),
        "neighbours": [_neighbour(each) for each in found.neighbours],
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
        "entry_id": None if decision.entry_id is None else f"{decision.entry_id:016x}",
        "was_served": is_hit,
        "verdict": decision.verdict,
        "standing": decision.state,
    }


def standing_told(standing: Standing) -> dict[str, Any]:
    share = standing.wrong_share
    return {
        "state": standing.state,
        "reason": standing.reason,
        "since": standing.since_s or None,
        "version": standing.version,
        "least_score": standing.least_score,
        "weights": None if standing.weights is None else list(standing.weights.mean),
        "audits_learned_from": 0 if standing.weights is None else standing.weights.audits,
        "f": {
            "wrong": share.wrong,
            "audits": share.audits,
            "share": share.wrong / share.audits if share.audits else None,
            "low": share.low,
            "high": share.high,
            "judged_by": list(standing.judges),
            "is_corrected": False,
        },
        "audits": standing.audits,
        "reported_wrong": standing.reported_wrong,
    }


def _partition(planned: Plan, secret: bytes) -> dict[str, str] | None:
    if planned.bypass is not None:
        return None
    return {name: digest.hex() for name, digest in parts_of(planned.material, secret=secret).items()}


def _entry(found: Explanation) -> dict[str, Any] | None:
    entry = found.entry
    if entry is None:
        return None
    return {
        "id": f"{entry.entry_id:016x}",
        "age_s": max(0.0, time.time() - entry.created_at_s),
        "expires_in_s": entry.expires_at_s - time.time(),
        "origin": dict(entry.answer.origin),
    }


def _neighbour(each: Neighbour) -> dict[str, Any]:
    return {
        "id": f"{each.entry.entry_id:016x}",
        "similarity": each.similarity,
        "age_s": each.age_s,
        "origin": dict(each.entry.answer.origin),
        "is_accepted": each.verdict.is_accepted,
        "reason": each.verdict.reason,
        "threshold": each.verdict.threshold,
        "features": dict(each.verdict.features),
        "vetoes": list(each.vetoes),
    }
