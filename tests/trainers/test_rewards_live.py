"""Rewards of turns, spans, seats and groups, from a verifier through the record to each trainer's own tensors.

verl-agent's are in `test_verl_kin_live.py`: its package has veRL's name.
"""

import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import typing_extensions

from rollouthub import Rollout, RolloutGroup
from rollouthub.authoring.rewards import group_advantages
from rollouthub.export import training_rows
from rollouthub.trainers import skyrl
from rollouthub.trainers.trl.asynchronous import samples_of
from rollouthub.trainers.verl import compute_advantage, data_proto
from tests.trainers import rewarded_episodes as episodes
from tests.trainers.marti_set_up import marti_generator
from tests.trainers.rewarded import RANKS, SEATS, VERDICT
from tests.trainers.roll_set_up import roll_classes
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]  # of what their modules import


@pytest.fixture
def stepwise(tmp_path: Path) -> Rollout:
    return anyio.run(episodes.stepwise, tmp_path)


@pytest.fixture
def divided(tmp_path: Path) -> Rollout:
    return anyio.run(episodes.divided, tmp_path)


@pytest.fixture
def ranked(tmp_path: Path) -> RolloutGroup:
    return anyio.run(episodes.ranked, tmp_path)


def ends_of_turns(rollout: Rollout) -> list[list[int]]:
    """[row][turn]: the place of each turn's last token within the row's response."""
    found: list[list[int]] = []
    for row in training_rows(rollout):
        turns = list(row.segment.turn_ids)[row.segment.prompt_length :]
        found.append([max(place for place, turn in enumerate(turns) if turn == own) for own in row.turns])
    return found


def seats_of(rollout: Rollout) -> list[str]:
    return [row.segment.agent for row in training_rows(rollout)]


# --- TRL --------------------------------------------------------------------------------------------------------------


def trl_batch(system: System, group: RolloutGroup) -> Any:
    """The samples of a group as TRL's own collator makes tensors of them."""
    theirs = system("trl.experimental.async_grpo.async_grpo_trainer")
    packed = theirs.TreeRow()
    for sample in samples_of(group, 1, "mean")[0]:
        packed.add(asdict(sample))
    return theirs.DataCollatorForRollout(pad_token_id=0)([[packed]])


def group_of(*rollouts: Rollout) -> RolloutGroup:
    first = rollouts[0]
    return RolloutGroup("g", first.environment, first.task, rollouts, policy_version=1)


def test_trl_learns_from_a_groups_verdict(system: System, ranked: RolloutGroup) -> None:
    batch = trl_batch(system, ranked)
    worth = [value for value in group_advantages(RANKS, "mean") if value is not None]
    tokens = [sum(row.response_mask) for each in ranked.rollouts for row in training_rows(each)]
    found = batch["advantages"][batch["token_index"] >= 0].tolist()
    assert sorted(found) == sorted(value for value, count in zip(worth, tokens, strict=True) for _ in range(count))


def test_trl_has_a_place_for_the_verdict_and_for_a_seats_share_alone(
    system: System, stepwise: Rollout, divided: Rollout
) -> None:
    system("trl")
    for rollout, wanted in ((stepwise, [VERDICT]), (divided, [SEATS[seat] for seat in seats_of(divided)])):
        samples, _ = samples_of(group_of(rollout), 1, "mean")
        assert [sample.metrics["reward"] for sample in samples] == wanted


# --- veRL -------------------------------------------------------------------------------------------------------------


def test_verl_has_turns_and_spans_on_their_tokens(system: System, stepwise: Rollout) -> None:
    system("verl")
    (row,) = training_rows(stepwise)
    scores = data_proto([row], 0, rewards="turns").batch["rm_scores"][0]
    assert scores.tolist() == episodes.stepwise_scores(row)
    assert scores.sum().item() == episodes.RETURNS[0]


def test_verl_has_what_each_seat_earned(system: System, divided: Rollout) -> None:
    system("verl")
    scores = data_proto(training_rows(divided), 0).batch["rm_scores"]
    assert scores.sum(-1).tolist() == [SEATS[seat] for seat in seats_of(divided)]


def test_verl_compares_the_members_of_a_group_by_its_verdict(system: System, ranked: RolloutGroup) -> None:
    system("verl")
    rows = [row for each in ranked.rollouts for row in training_rows(each)]
    data = compute_advantage(data_proto(rows, 0), "grpo", norm_adv_by_std_in_grpo=False)
    found = [data.batch["advantages"][place][mask.bool()] for place, mask in enumerate(data.batch["response_mask"])]
    for values, worth in zip(found, group_advantages(RANKS, "mean"), strict=True):
        assert values.tolist() == pytest.approx([worth] * len(values))


# --- SkyRL ------------------------------------------------------------------------------------------------------------


def skyrl_rewards(system: System, rollouts: list[Rollout], **shape: Any) -> Any:
    """[row, token]: rewards as SkyRL's own conversion has them."""
    if sys.version_info < (3, 12):
        typing.TypedDict = typing_extensions.TypedDict  # pydantic refuses that of an older Python
    convert = system("skyrl.train.dataset.preprocess").convert_prompts_responses_to_batch_tensors
    output = skyrl.generator_output([(None, each) for each in rollouts], skyrl.Shape(**shape))
    rewards = output["rewards"]
    if not shape.get("token_rewards"):
        rewards = [[0.0] * (len(ids) - 1) + [value] for ids, value in zip(output["response_ids"], rewards, strict=True)]
    tokenizer = SimpleNamespace(pad_token_id=0)
    _, _, response, tensor, *_ = convert(
        tokenizer, output["prompt_token_ids"], output["response_ids"], rewards, output["loss_masks"]
    )
    return [values[mask.bool()].tolist() for values, mask in zip(tensor, response, strict=True)]


def test_skyrl_has_turns_and_spans_on_their_tokens(system: System, stepwise: Rollout) -> None:
    [rewards] = skyrl_rewards(system, [stepwise], token_rewards=True)
    [ends] = ends_of_turns(stepwise)
    assert rewards[ends[0]] == episodes.TURNS[0]
    assert rewards[ends[1]] == episodes.TURNS[1] + VERDICT
    assert sum(rewards) == episodes.RETURNS[0]
    assert sum(map(bool, rewards)) == 3, "the span has a token of its own"


def test_skyrl_has_what_each_seat_earned(system: System, divided: Rollout) -> None:
    # A trajectory of SkyRL's has one reward, the last row's: each seat's row alone has what it earned.
    rows = skyrl_rewards(system, [divided], step_wise=True, token_rewards=True)
    assert sum(rows[-1]) == SEATS[seats_of(divided)[-1]]


def test_skyrl_has_a_groups_verdict(system: System, ranked: RolloutGroup) -> None:
    assert [sum(row) for row in skyrl_rewards(system, list(ranked.rollouts))] == list(RANKS)


# --- MARTI ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def marti_samples(checkout: Callable[..., Path], system: System) -> Iterator[Callable[..., Any]]:
    """What MARTI's own generator makes of a rollout: (agent, reward) of each sample."""
    checkout("marti")
    with marti_generator(system) as made:
        yield made


def test_marti_has_what_each_turn_is_worth(marti_samples: Callable[..., Any], stepwise: Rollout) -> None:
    assert marti_samples(stepwise, "agent") == [(0, worth) for worth in episodes.RETURNS]


def test_marti_has_what_each_seat_earned(marti_samples: Callable[..., Any], divided: Rollout) -> None:
    found = marti_samples(divided, *SEATS)
    assert sorted(found) == sorted((place, worth) for place, worth in enumerate(SEATS.values()) for _ in range(2))


def test_marti_has_a_groups_verdict(marti_samples: Callable[..., Any], ranked: RolloutGroup) -> None:
    found = [marti_samples(each, "agent") for each in ranked.rollouts]
    assert found == [[(0, rank)] for rank in RANKS]


# --- ROLL -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def roll_steps(
    checkout: Callable[..., Path], system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Rollout], Any]]:
    """The batch of an episode's steps, with the returns that ROLL makes of them."""
    monkeypatch.chdir(tmp_path)  # it writes logs where it stands
    checkout("roll")
    with roll_classes(system, monkeypatch) as roll:

        def made(rollout: Rollout) -> Any:
            return roll.utils.compute_discounted_returns(roll.formed(rollout), "gigpo", 1.0)

        yield made


def test_roll_has_what_each_turn_earned(roll_steps: Callable[[Rollout], Any], stepwise: Rollout) -> None:
    batch = roll_steps(stepwise)
    assert batch.non_tensor_batch["step_scores"].tolist() == episodes.STEPS
    assert batch.batch["scores"].sum(-1).tolist() == episodes.STEPS
    assert batch.batch["step_rewards"].tolist() == episodes.RETURNS
    lengths = batch.batch["attention_mask"].sum(-1).tolist()
    assert [batch.batch["scores"][place, length - 1].item() for place, length in enumerate(lengths)] == episodes.STEPS


def test_roll_has_what_each_seat_earned_at_its_last_turn(
    roll_steps: Callable[[Rollout], Any], divided: Rollout
) -> None:
    spoken = [turn.agent for turn in divided.turns]
    last = {seat: max(place for place, own in enumerate(spoken) if own == seat) for seat in SEATS}
    wanted = [SEATS[seat] if last[seat] == place else 0.0 for place, seat in enumerate(spoken)]
    assert roll_steps(divided).batch["scores"].sum(-1).tolist() == wanted


def test_roll_has_a_groups_verdict(roll_steps: Callable[[Rollout], Any], ranked: RolloutGroup) -> None:
    assert [roll_steps(each).batch["scores"].sum().item() for each in ranked.rollouts] == list(RANKS)
