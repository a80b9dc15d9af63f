"""The statement of a bundle on the wire."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from rollouthub_registry.bundle.attestation import CheckSummary, Predicate, Statement
from rollouthub_registry.names import Release

PREDICATE = Predicate(
    manifest={"name": "acme/words"},
    tools_digest=None,
    check=CheckSummary(passed=True),
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
    hub_version="0.1.0",
    contract=1,
)


def test_a_statement_is_written_as_in_toto_names_it_and_reads_back() -> None:
    statement = Statement.about(Release.parse("acme/words@1.0.0"), "sha256:" + "a" * 64, PREDICATE)
    wire = json.loads(statement.model_dump_json())
    assert wire["_type"] == "https://in-toto.io/Statement/v1"
    assert wire["predicateType"] == "urn:envhub:environment:v1"
    assert wire["subject"] == [{"name": "acme/words@1.0.0", "digest": {"sha256": "a" * 64}}]
    assert Statement.model_validate_json(json.dumps(wire)) == statement
    assert (str(statement.release), statement.digest) == ("acme/words@1.0.0", "sha256:" + "a" * 64)


@pytest.mark.parametrize("missing", ["_type", "subject", "predicateType", "predicate"])
def test_a_statement_without_one_of_its_parts_is_refused(missing: str) -> None:
    statement = Statement.about(Release.parse("acme/words@1.0.0"), "sha256:" + "a" * 64, PREDICATE)
    wire = json.loads(statement.model_dump_json())
    del wire[missing]
    with pytest.raises(ValidationError):
        Statement.model_validate_json(json.dumps(wire))
