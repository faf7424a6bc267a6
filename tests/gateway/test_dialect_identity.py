"""The safety wall stands in each dialect: no two requests share that differ in what can affect the answer."""

from __future__ import annotations

import pytest

from gateway.dialects import DIALECTS, Dialect
from gateway.eligibility import plan
from tests.gateway.test_eligibility import ASKER, BASE, DEFAULT, VARIANTS, VERSION, same


@pytest.mark.parametrize("field", VARIANTS)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.endpoint)
def test_in_no_dialect_do_requests_that_differ_in_it_share(dialect: Dialect, field: str):
    base = {"model": "m1", "messages": [{"role": "user", "content": "q"}], "prompt": "q", "input": "q"}
    one, other = (
        plan(base | {field: value}, dialect=dialect, principal=ASKER, version=VERSION, controls=DEFAULT)
        for value in VARIANTS[field]
    )
    assert not same(one, other) or {one.bypass, other.bypass} != {None}


def test_the_same_body_is_another_question_at_each_endpoint():
    body = BASE | {"prompt": "q", "input": "q"}
    plans = [
        plan(body, dialect=dialect, principal=ASKER, version=VERSION, controls=DEFAULT)
        for dialect in DIALECTS
    ]
    assert len({planned.material for planned in plans}) == len(DIALECTS)
