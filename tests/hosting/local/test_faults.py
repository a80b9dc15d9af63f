"""What broke under an environment's code is recorded by its boundary."""

import pytest

from rollouthub.errors import ModelError, SandboxError, TaskError, VerifierError
from rollouthub.hosting.local.environment_faults import world_fault


@pytest.mark.parametrize(
    ("error", "boundary"),
    [
        (SandboxError("gone"), "sandbox"),
        (ModelError("away"), "model"),
        (VerifierError("no reward"), "verifier"),
        (TaskError("wrong"), "environment"),
        (ValueError("wrong"), "environment"),
    ],
)
def test_a_fault_names_what_broke_while_the_agent_acted(error: Exception, boundary: str) -> None:
    assert world_fault(error, "agent").boundary == boundary
