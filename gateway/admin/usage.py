"""The admin API's usage: what keys, services and tenants used over time, as JSON or CSV."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime, BaseModel, Field
from redis.exceptions import RedisError

from auth import KeyRef

from ..errors import InvalidRequest, NotFound, Unavailable
from ..usage.store import COUNTERS, SPANS, Bucket, Counts, Level
from .access import needs
from .acts import refusals
from .model import After, Listing, moment
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

# How far back is shown if nobody says, and the most buckets that are shown at once.
_LAST_S: dict[Bucket, int] = {"minute": 3_600, "hour": 86_400, "day": 30 * 86_400}
_MOST_BUCKETS: dict[Bucket, int] = {"minute": 2 * 24 * 60, "hour": 62 * 24, "day": 800}


class UsageOut(BaseModel):
    """What was used within one bucket of time. Buckets in which nothing happened are left out."""

    level: Literal["key", "service", "tenant"]
    tenant: str
    name: str = Field(description="The key's id, or the name of the service or the tenant.")
    bucket: Literal["minute", "hour", "day"]
    start: datetime = Field(description="When the bucket begins, in UTC.")
    requests: int
    hits_exact: int
    hits_semantic: int
    shared: int = Field(description="Answered by a call that another request had started.")
    limited: int = Field(description="Refused by a limit; counted in `requests` too.")
    failed: int = Field(description="Got no whole answer for another reason; counted in `requests` too.")
    input_tokens: int = Field(description="Of model servers.")
    output_tokens: int
    saved_input_tokens: int = Field(description="Of stored answers.")
    saved_output_tokens: int
    cost: float = Field(description="Of `input_tokens` and `output_tokens`, by the table `prices`.")


class Name(BaseModel):
    """Whose usage it is."""

    tenant: str
    name: str


def usage_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/admin/usage", tags=["usage"], dependencies=[Depends(needs(context, "read"))])

    @router.get(
        "",
        responses=errors(404) | {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
        response_model=Listing[UsageOut],
    )
    async def usage(
        level: Literal["key", "service", "tenant"] = "tenant",
        name: Annotated[
            str | None, Query(description="Of this one; without it, of all, page by page.")
        ] = None,
        tenant: Annotated[str | None, Query(description="Needed with the `name` of a service.")] = None,
        bucket: Bucket = "hour",
        start: Annotated[
            AwareDatetime | None, Query(description="Without it, an hour, a day or 30 days.")
        ] = None,
        end: Annotated[AwareDatetime | None, Query(description="Without it, now.")] = None,
        as_: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
        limit: Annotated[int, Query(ge=1, le=100, description="Keys, services or tenants on a page.")] = 100,
        after: After = None,
    ) -> Listing[UsageOut] | Response:
        start_s, end_s = _period(bucket, start, end)
        names, following = await _names(context, level, name, tenant, limit=limit, after=after)
        rows: list[UsageOut] = []
        try:
            for each in names:
                found = await context.usage.read(
                    each.tenant, level, each.name, bucket, start_s=start_s, end_s=end_s
                )
                rows += [_row(level, each, bucket, at_s, counts) for at_s, counts in found]
        except (OSError, RedisError) as error:
            raise Unavailable(
                "The durable store (store.durable) does not answer.", code="store_unavailable"
            ) from error
        if as_ == "csv":
            headers = {"x-next": following} if following else {}
            return Response(_csv(rows), media_type="text/csv; charset=utf-8", headers=headers)
        return Listing(data=rows, has_more=following is not None, next=following)

    return router


def _period(bucket: Bucket, start: datetime | None, end: datetime | None) -> tuple[int, int]:
    """Whole buckets, the one that `end` lies in among them."""
    length_s = SPANS[bucket].length_s
    end_s = time.time() if end is None else end.timestamp()
    start_s = end_s - _LAST_S[bucket] if start is None else start.timestamp()
    first, last = int(start_s // length_s), int(-(-end_s // length_s))
    if not 0 <= first < last:
        raise InvalidRequest("start must lie before end.", param="start")
    if last - first > _MOST_BUCKETS[bucket] + 1:
        raise InvalidRequest(
            f"From start to end are {last - first} buckets of one {bucket}: at most {_MOST_BUCKETS[bucket]} are shown.",
            param="start",
        )
    return first * length_s, last * length_s


async def _names(
    context: AdminContext,
    level: Level,
    name: str | None,
    tenant: str | None,
    *,
    limit: int,
    after: str | None,
) -> tuple[Sequence[Name], str | None]:
    """Whose usage to read, and where the list goes on. Raises NotFound and InvalidRequest."""
    directory = context.directory
    with refusals():
        if level == "tenant":
            if name is not None:
                return [Name(tenant=name, name=name)], None
            tenants = await directory.tenants(limit=limit, after=after)
            return [Name(tenant=each.name, name=each.name) for each in tenants.records], tenants.next
        if level == "service":
            if name is not None:
                if tenant is None:
                    raise InvalidRequest("A service needs its tenant named.", param="tenant")
                return [Name(tenant=tenant, name=name)], None
            services = await directory.services(tenant=tenant, limit=limit, after=after)
            return [Name(tenant=each.tenant, name=each.name) for each in services.records], services.next
        if name is not None:
            key = await directory.get(KeyRef(name))
            if key is None:
                raise NotFound(f"There is no key with the id {name[:64]!r}.")
            return [Name(tenant=key.tenant, name=name)], None
        keys = await directory.keys(tenant=tenant, limit=limit, after=after)
        return [Name(tenant=each.tenant, name=each.key_id) for each in keys.records], keys.next


def _row(level: Level, whose: Name, bucket: Bucket, at_s: int, counts: Counts) -> UsageOut:
    return UsageOut(
        level=level,
        tenant=whose.tenant,
        name=whose.name,
        bucket=bucket,
        start=moment(at_s),
        **msgspec.structs.asdict(counts),
    )


def _csv(rows: Sequence[UsageOut]) -> str:
    text = io.StringIO()
    columns = ["level", "tenant", "name", "bucket", "start", *COUNTERS]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.model_dump(mode="json") for row in rows)
    return text.getvalue()
