"""How admins say which of the cache's entries they mean, and what of that may stand in the audit log."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, model_validator

from ..evidence.entry_wishes import Chosen
from .model import Asked

_Word = Annotated[str, Field(min_length=1, max_length=256)]
ENTRY_ID = r"^[0-7][0-9a-f]{15}$"


def _entry_id(named: str) -> str:
    if re.match(ENTRY_ID, named) is None or len(named) != 16:
        raise ValueError(f"{named[:32]!r} is no entry's id: expected 16 hexadecimal digits, as in x-cache-id")
    return named


EntryId = Annotated[str, AfterValidator(_entry_id), Field(json_schema_extra={"pattern": ENTRY_ID})]
_NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,64}$")]
Place = Annotated[
    str,
    Field(pattern=r"^\d{1,2}\.\d{1,20}$", description="`next` of the answer before."),
]
_OF_A_TENANT = ("service", "namespace", "user", "safety_identifier")
# What says who a person is, or what was said, must not outlive its own erasure in a log that cannot be changed.
_NOT_LOGGED = frozenset({"user", "safety_identifier", "alike"})


class ChosenEntries(Asked):
    """Entries that have all of this to do with them."""

    tenant: _Word | None = None
    service: _Word | None = Field(None, description="Of the tenant; whose answer it was first.")
    namespace: _NamespaceName | None = Field(None, description="Of the tenant, as in `x-cache-namespace`.")
    user: _Word | None = Field(
        None, description="Of the tenant: `user` of the request that led to the answer."
    )
    safety_identifier: _Word | None = Field(None, description="Likewise.")
    key: _Word | None = Field(None, description="The id of the key whose request led to the answer.")
    model: _Word | None = Field(None, description="The public name.")
    version: _Word | None = Field(None, description="`model@revision`.")
    request_id: _Word | None = Field(
        None, description="An `x-echogate-request-id`: the entry that answered it, or that its answer became."
    )
    cluster: Annotated[str, Field(max_length=96)] | None = Field(
        None, description="The id of a cluster, as `/admin/cache/clusters` told it."
    )
    ids: list[EntryId] = Field([], max_length=1_000, description="As in `x-cache-id`.")
    older_than_s: Annotated[float, Field(ge=0, le=1e9)] | None = Field(None, description="Stored longer ago.")
    alike: Annotated[str, Field(min_length=1, max_length=20_000)] | None = Field(
        None, description="Questions near this text in meaning."
    )
    min_similarity: Annotated[float, Field(ge=-1, le=1)] = Field(
        0.95, description="With `alike`: the least cosine."
    )

    @model_validator(mode="after")
    def _of_a_tenant(self) -> ChosenEntries:
        named = [name for name in _OF_A_TENANT if getattr(self, name) is not None]
        if named and self.tenant is None:
            raise ValueError(f"{named[0]} needs the tenant: two tenants can each have one of this name")
        return self

    @property
    def names_something(self) -> bool:
        return self.chosen() != Chosen(min_similarity=self.min_similarity)

    def chosen(self) -> Chosen:
        said = self.model_dump(include=set(ChosenEntries.model_fields))
        said["request"] = said.pop("request_id")
        return Chosen(**{**said, "ids": tuple(said["ids"])})

    def facts(self) -> dict[str, Any]:
        """For the audit log."""
        said = self.model_dump(include=set(ChosenEntries.model_fields), exclude_defaults=True)
        return {name: "(given)" if name in _NOT_LOGGED else value for name, value in said.items()}


class EntryTold(BaseModel):
    """An entry, without what was asked and answered unless that was asked for."""

    id: str
    tenant: str
    namespace: str
    model: str
    created_at: datetime
    expires_at: datetime
    bytes: int
    is_similar: bool = Field(description="Whether it may answer similar questions too.")
    tagged: list[str] = Field(description="By what of it entries like this are found; not the values.")
    hits: int | None = Field(
        None, description="How often it answered in the last month; only where a page has few namespaces."
    )
    question: str | None = None
    answer: str | None = None
    origin: dict[str, str] | None = Field(None, description="How the answer was made.")
