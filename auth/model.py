"""What auth hands out: who asks, and whether they may now."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """A token bucket: `rate_per_s` requests a second on average, `burst` at once."""

    rate_per_s: float = 100.0
    burst: int = 500


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request speaks for: a key of a service of a tenant."""

    key_id: str
    tenant: str
    service: str
    limit: RequestLimit


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as the store knows it. The secret itself is shown once, at creation, and kept nowhere."""

    key_id: str
    secret_sha256: bytes = field(repr=False)
    tenant: str
    service: str
    name: str
    limit: RequestLimit
    created_at_s: float
    revoked_at_s: float | None = None

    @property
    def principal(self) -> Principal:
        return Principal(key_id=self.key_id, tenant=self.tenant, service=self.service, limit=self.limit)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the limiter says of one request; the numbers go into OpenAI's `x-ratelimit-*` headers.

    `limit` is the bucket's capacity, `remaining` what is left after this request, `reset_s` the time until
    the bucket is full again, `retry_after_s` the time until the next request fits (0 when this one did).
    `is_local` says that the store did not answer and this worker's own share of the limit was used.
    """

    is_allowed: bool
    limit: int
    remaining: int
    reset_s: float
    retry_after_s: float
    is_local: bool = False
