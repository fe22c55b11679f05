"""Requests drawn from openapi.yaml, bad ones among them: no 500, and every answer is what the description says."""
import os
import pathlib

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "20"))
CHECKS = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance,
          checks.response_headers_conformance]


DESCRIPTION = pathlib.Path(__file__).resolve().parents[2] / "openapi.yaml"
schema = schemathesis.openapi.from_path(DESCRIPTION)


def test_the_server_hands_out_its_description(server):
    assert server.get("/openapi.yaml") == DESCRIPTION.read_text()


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
def test_operation_keeps_to_its_description(server, case):
    keep_short(case.body)
    response = case.call(base_url=server.url, timeout=30)
    assert response.status_code != 500, response.text
    case.validate_response(response, checks=CHECKS)
