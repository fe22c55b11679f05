"""Requests drawn from openapi.yaml, bad ones among them: no 500, and every answer is what the description says."""
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "20"))
CHECKS = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance,
          checks.response_headers_conformance]


@pytest.fixture(scope="session")
def description(server):
    schema = schemathesis.openapi.from_url(server.url + "/openapi.yaml")
    schema.config.update(base_url=server.url)
    return schema


schema = schemathesis.pytest.from_fixture("description")


def keep_short(body):
    """Few tokens: the answers' shape is the matter here, not their length."""
    if isinstance(body, dict):
        for field in ("max_tokens", "max_completion_tokens", "n", "best_of", "min_tokens"):
            if isinstance(body.get(field), int) and body[field] > 4:
                body[field] = 4
        if "max_completion_tokens" not in body and body.get("messages"):
            body.setdefault("max_tokens", 4)


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_operation_keeps_to_its_description(case):
    keep_short(case.body)
    response = case.call(timeout=30)
    assert response.status_code != 500, response.text
    case.validate_response(response, checks=CHECKS)
