"""What auth knows and hands out: tenants, services and keys, what each is allowed, and whom a request speaks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, Literal, TypeVar

from .identity.allow import check_patterns, is_allowed
from .limits.model import LevelLimits, Limits

CacheScope = Literal["tenant", "service", "user"]
CacheMode = Literal["off", "exact", "shadow", "semantic"]

Scope = Literal["chat", "embeddings", "models", "feedback"]

UNLIMITED: Final = Limits()
SCOPES: Final[frozenset[Scope]] = frozenset(("chat", "embeddings", "models", "feedback"))


class Priority(IntEnum):
    """Whose requests go first: the lower, the sooner."""

    INTERACTIVE = 0
    NORMAL = 1
    BATCH = 2


@dataclass(frozen=True, slots=True)
class Policy:
    """What a tenant, a service or a key is allowed; None: what the level above it is allowed.

    `models` are exact names or globs (`*` and `?`), in which case counts; `scopes` are of SCOPES.
    """

    models: tuple[str, ...] | None = None
    scopes: frozenset[Scope] | None = None
    cache_scope: CacheScope | None = None
    cache_mode: CacheMode | None = None
    shared_pool: bool | None = None
    priority: Priority | None = None

    def validate(self) -> None:
        """Raises ValueError, in words for an admin, for a policy that may not be set."""
        check_patterns(self.models or ())
        if unknown := sorted((self.scopes or frozenset()) - SCOPES):
            raise ValueError(f"There is no scope {unknown[0]!r}; known are {', '.join(sorted(SCOPES))}.")


@dataclass(frozen=True, slots=True)
class Rights:
    """A policy in which nothing is left open; as it stands, what a deployment allows that says nothing else."""

    models: tuple[str, ...] = ("*",)
    scopes: frozenset[Scope] = SCOPES
    cache_scope: CacheScope = "tenant"
    cache_mode: CacheMode = "semantic"
    shared_pool: bool = False
    priority: Priority = Priority.NORMAL

    def under(self, policy: Policy) -> Rights:
        """These rights, but for what the policy says otherwise."""
        return Rights(
            models=self.models if policy.models is None else policy.models,
            scopes=self.scopes if policy.scopes is None else policy.scopes,
            cache_scope=self.cache_scope if policy.cache_scope is None else policy.cache_scope,
            cache_mode=self.cache_mode if policy.cache_mode is None else policy.cache_mode,
            shared_pool=self.shared_pool if policy.shared_pool is None else policy.shared_pool,
            priority=self.priority if policy.priority is None else policy.priority,
        )

    def may_use(self, model: str) -> bool:
        """Whether the public name of a model is on the allow list. To be asked before the cache is."""
        return is_allowed(self.models, model)

    def has_scope(self, scope: Scope) -> bool:
        return scope in self.scopes


@dataclass(frozen=True, slots=True)
class Tenant:
    """A team or customer. Nothing cached is shared between tenants, unless both opted into the shared pool.

    Moments are wall-clock seconds, here and below. While `disabled_at_s` is set, none of its keys works.
    """

    name: str
    created_at_s: float
    policy: Policy = Policy()
    limits: Limits = UNLIMITED
    metadata: Mapping[str, str] = field(default_factory=dict)
    disabled_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """One application of a tenant. While `disabled_at_s` is set, none of its keys works."""

    tenant: str
    name: str
    created_at_s: float
    policy: Policy = Policy()
    limits: Limits = UNLIMITED
    metadata: Mapping[str, str] = field(default_factory=dict)
    disabled_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class OldSecret:
    """The secret before a rotation. It works until `ends_at_s`."""

    sha256: bytes = field(repr=False)
    ends_at_s: float


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as the store knows it. The secret itself is shown once, when it is made, and kept nowhere.

    Tenant and service never change. `last_used_at_s` is right to the minute, and no part of what an
    administrator writes.
    """

    key_id: str
    tenant: str
    service: str
    name: str
    secret_sha256: bytes = field(repr=False)
    created_at_s: float
    old_secret: OldSecret | None = None
    policy: Policy = Policy()
    limits: Limits = UNLIMITED
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires_at_s: float | None = None
    disabled_at_s: float | None = None
    last_used_at_s: float | None = None


Record = Tenant | Service | KeyRecord
R = TypeVar("R", bound=Record)


class Ref(Generic[R]):
    """Names a record of its kind."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TenantRef(Ref[Tenant]):
    name: str

    def __str__(self) -> str:
        return f"tenant {self.name!r}"


@dataclass(frozen=True, slots=True)
class ServiceRef(Ref[Service]):
    tenant: str
    name: str

    def __str__(self) -> str:
        return f"service {self.name!r} of tenant {self.tenant!r}"


@dataclass(frozen=True, slots=True)
class KeyRef(Ref[KeyRecord]):
    key_id: str

    def __str__(self) -> str:
        return f"key {self.key_id!r}"


@dataclass(frozen=True, slots=True)
class Written(Generic[R]):
    """A record as it was written or, when it was deleted, as it was last.

    `is_replicated` is False when the store has replicas and none confirmed the change in time: it is in force,
    but would be lost if the store failed now.
    """

    record: R
    is_replicated: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Some of a list, and where it goes on: `next` is None at the end, else to be given back as `after`."""

    records: tuple[R, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """A key with the service and the tenant it belongs to, read at one moment."""

    key: KeyRecord
    service: Service
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class KeyWarning:
    """What its user should know of a key that works still: when, in wall-clock seconds, it stops to."""

    kind: Literal["expires-soon", "secret-was-rotated"]
    ends_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal(Rights):
    """Whom a request speaks for, and what it may do: a key of a service of a tenant.

    `limits` holds the levels that limit anything, the key first; all of them apply at once.
    """

    key_id: str
    tenant: str
    service: str
    limits: tuple[LevelLimits, ...] = ()
    warnings: tuple[KeyWarning, ...] = ()
