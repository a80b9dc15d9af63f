"""Agents and clients that this project did not write play, are scored, and leave records that can be trained on.

Each runs unmodified behind walls, its two URLs its only way out, and asks a model that plays a script with the tools it
shows. Between them they speak all three dialects of the model API, streamed and not, and four versions of MCP: with no
session, one session, and one for every call.
"""

import pytest

from rollouthub import EnvironmentConfig, Outcome, Rollout, Stop
from rollouthub.hosting import InProcessHost
from tests.agents.external_stage import external, stage
from tests.clients.conftest import Settings
from tests.clients.ledger import Ledger
from tests.clients.scripted_model import ScriptedModel, banking, sums

pytestmark = pytest.mark.live

SECONDS = 300
STEPS = ["open_account", "open_account", "deposit", "transfer", "transfer", "balance", "submit"]


def called(rollout: Rollout) -> list[tuple[str, bool]]:
    """The environment's tools that were called, and whether each failed."""
    return [(call.name, call.result.is_error) for turn in rollout.turns for call in turn.tool_calls]


def check_record(rollout: Rollout) -> None:
    """Every turn is a model's own, with the ids of its tokens."""
    assert rollout.faults == ()
    assert all(turn.prompt_token_ids and turn.output_token_ids for turn in rollout.turns)
    assert all(len(turn.output_logprobs or ()) == len(turn.output_token_ids or ()) for turn in rollout.turns)
    assert (rollout.trainable, rollout.gaps) == (True, ()), rollout.trainable_reason


async def test_a_client_finishes_a_sum(settings: Settings) -> None:
    async with stage(external(**settings, timeout_seconds=SECONDS)) as made:
        made.model = ScriptedModel(sums)
        rollout = await made.play(seconds=SECONDS)
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.FINISHED, 1.0), rollout.faults
    assert called(rollout) == [("calculate", False)]
    check_record(rollout)


async def test_a_client_finishes_steps_that_depend_on_each_other(settings: Settings) -> None:
    async with stage(external(**settings, timeout_seconds=SECONDS, grace_seconds=5)) as made:
        made.host = InProcessHost("ledger", Ledger, EnvironmentConfig())
        made.model = ScriptedModel(banking)
        rollout = await made.play(seconds=SECONDS)
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.SUBMITTED, 1.0), rollout.faults
    assert called(rollout) == [(name, index == 3) for index, name in enumerate(STEPS)]
    check_record(rollout)
