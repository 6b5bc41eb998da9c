"""The description of the API against its behaviour."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from rareswitch.campaigns import open_store
from rareswitch.campaigns.access import Grant, operator
from rareswitch.service.api import ENDPOINTS
from rareswitch.service.openapi import describe
from running_service import PASSWORD, run_service, study

OPERATIONS = [
    (path, method)
    for path, methods in describe(ENDPOINTS)["paths"].items()
    for method in methods
    if not path.endswith("/live")  # a stream without an end
]
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Run a service with one account that has every role, and read its description."""
    folder = tmp_path_factory.mktemp("openapi")
    with open_store(f"sqlite:///{folder / 'store.db'}", create=True) as store:
        running = run_service(store)
        running.create(*study())
        access = running.service.access
        roles = ("administrator", "statistician", "approver", "monitor", "auditor")
        grants = [*(Grant("*", role) for role in roles), Grant("*", "site", "berlin")]
        access.accept(access.invite("ana", grants, by=operator("ops")), PASSWORD)
        _, secret = access.issue_token("all", grants, by=operator("ops"), account="ana")
        headers = {"Authorization": f"Bearer {secret}"}
        schema = schemathesis.openapi.from_asgi("/v1/openapi.json", running.app, headers=headers)
        yield schema, running, headers


def test_the_description_is_served(described):
    _, running, headers = described
    answer = running.client.get("/v1/openapi.json", headers=headers)
    assert answer.json() == json.loads(json.dumps(running.service.description))
    assert running.client.get("/v1/openapi.json").status_code == 401


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda value: value)
def test_answers_are_as_described(described, path, method):
    schema, _, headers = described
    operation = schema[path][method.upper()]
    cases = st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )

    @settings(
        max_examples=6, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases)
    def check(case):
        if "campaign" in (case.path_parameters or {}):
            case.path_parameters["campaign"] = "doors"
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()
