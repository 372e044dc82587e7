"""Requests made from the OpenAPI description, fitting and not: no server error, no other status."""

from __future__ import annotations

from collections import Counter

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from scumble.server.config import Limits
from scumble.server.http import api
from scumble.server.http.openapi import document
from scumble.server.problems import MEDIA_TYPE
from tests.support.servers import Front, make_settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
GenerationMode = pytest.importorskip("schemathesis.generation").GenerationMode


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server without a limit of requests, where failed logins are not slow."""
    limits = Limits(requests=1e9, upload=100_000)
    found = Front(make_settings(tmp_path_factory.mktemp("busy"), epsilon=50, limits=limits))
    found.service.login_delay = 0.0
    found.service.catalogue.get("people").database.close = lambda: None  # others need it
    yield found
    found.close()


def fuzz(front, cases: int, seed: int) -> Counter:
    """Send requests by every operation and role; return how many had each status."""
    described = schemathesis.openapi.from_dict(document(api.ROUTES))
    seen: Counter = Counter()
    for route in api.ROUTES:
        if route.name != "stop dataset":  # there would be nothing left to ask
            operation = described[route.path][route.method]
            _fuzz_route(front, route, operation, max(2, cases // len(api.ROUTES)), seed, seen)
    return seen


def _fuzz_route(front, route, operation, cases: int, seed: int, seen: Counter) -> None:
    fits = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    strategy = fits
    if route.body or route.query:  # what has neither cannot be broken
        strategy = st.one_of(fits, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @given(strategy, st.sampled_from(["owner", "owner", "analyst", "auditor", ""]), st.booleans())
    def one(case, role, known):
        if known and route.of_dataset:
            case.path_parameters = {**(case.path_parameters or {}), "dataset": "people"}
        own = {k: v for k, v in dict(case.headers or {}).items() if k.lower() != "authorization"}
        case.headers = {**own, "Authorization": f"Bearer {getattr(front.users, role, '')}"}
        response = case.call(base_url=str(front.http.base_url))
        seen[response.status_code] += 1
        where = (route.name, response.status_code, response.text[:300])
        assert response.status_code < 500, where
        assert response.status_code in (*route.all_statuses(), 404, 405), where
        if response.status_code >= 400:
            assert response.headers["content-type"] == [MEDIA_TYPE], where

    one()


def test_the_description_is_one_of_openapi():
    found = document(api.ROUTES)
    assert found["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(found).validate()


@pytest.mark.slow
@pytest.mark.usefixtures("without_audits")
def test_two_thousand_requests_from_the_description(busy):
    seen = fuzz(busy, 2_500, seed=1)
    assert sum(seen.values()) >= 2_000
    assert seen[200] > 100
    assert seen[422] > 50


@pytest.mark.soak
@pytest.mark.usefixtures("without_audits")
def test_fifty_thousand_requests_from_the_description(busy):
    assert sum(fuzz(busy, 62_000, seed=2).values()) >= 50_000
