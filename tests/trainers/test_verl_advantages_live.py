"""Advantages where rollouts forked: by veRL's own estimators, with each rollout counted once."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.authoring.rewards import GroupMethod, group_advantages
from rollouthub.errors import ConfigError
from rollouthub.export import training_rows
from rollouthub.trainers.verl import compute_advantage, data_proto
from tests.export.made import forked, rollout, turn

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]

System = Callable[[str], ModuleType]
GROUP = (
    rollout(reward=1.0),
    forked(sample=1, reward=0.0),
    rollout(sample=2, reward=0.25),
    forked(sample=3, reward=0.5),
)
OTHERS = (rollout(group="g2", reward=0.75), forked(group="g2", sample=1, reward=0.25))


@pytest.fixture(autouse=True)
def verl(system: System) -> None:
    """What makes the batches."""
    system("verl")


def batch_of(rollouts: Sequence[Rollout]) -> Any:
    return data_proto([row for each in rollouts for row in training_rows(each)], 0)


def advantages(data: Any) -> dict[str, list[float]]:
    """What each rollout's sampled tokens were given, each different value once."""
    found: dict[str, list[float]] = {}
    for place, name in enumerate(data.non_tensor_batch["rollout_id"]):
        given = data.batch["advantages"][place][data.batch["response_mask"][place].bool()]
        found[name] = sorted({*found.get(name, []), *(round(value, 5) for value in given.tolist())})
    assert data.batch["advantages"][data.batch["response_mask"] == 0].abs().max() == 0
    return found


@pytest.mark.parametrize(
    ("estimator", "settings", "method"),
    [
        ("grpo", {}, "mean_std"),
        ("grpo", {"norm_adv_by_std_in_grpo": False}, "mean"),
        ("rloo", {}, "leave_one_out"),
    ],
)
def test_a_rollout_that_forked_counts_once_in_its_group(
    system: System, estimator: str, settings: dict[str, Any], method: GroupMethod
) -> None:
    torch = system("torch")
    data = batch_of([*GROUP, *OTHERS])
    data.reorder(torch.tensor([8, 3, 0, 5, 1, 7, 2, 4, 6]))  # a trainer balances its rows as it likes
    found = advantages(compute_advantage(data, estimator, **settings))
    for group in (GROUP, OTHERS):
        wanted = group_advantages([each.reward for each in group], method)
        for each, value in zip(group, wanted, strict=True):
            assert found[each.rollout_id] == pytest.approx([value], abs=1e-4)


def test_verls_plain_function_counts_rows(system: System) -> None:
    """The reason for ours: should it come to count rollouts, ours can go."""
    data = batch_of(GROUP)
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    plain = system("verl.trainer.ppo.ray_trainer").compute_advantage(data.select(), adv_estimator="grpo")
    assert advantages(plain) != advantages(compute_advantage(data))


def test_verls_trainer_for_several_outputs_a_sample_says_the_same(system: System) -> None:
    data = batch_of(GROUP)
    columns = data.non_tensor_batch
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    keys = [
        f"{uid}_{sample.rpartition('-')[2]}_{index}"
        for uid, sample, index in zip(columns["uid"], columns["rollout_id"], columns["row_index"], strict=True)
    ]
    theirs = system("verl.trainer.ppo.v1.utils").compute_advantage_for_multi_trajectories(
        data.select(), batch_keys=keys, adv_estimator="grpo"
    )
    assert advantages(theirs) == advantages(compute_advantage(data))


def test_a_fork_changes_nothing_in_verls_mean_over_tokens(system: System) -> None:
    algos, config = system("verl.trainer.ppo.core_algos"), system("verl.workers.config")
    joined = rollout(
        turn(0, [1, 2, 3], [4, 5]),
        turn(1, [1, 2, 3, 4, 5, 6], [7, 8]),
        turn(2, [1, 2, 3, 4, 5, 6, 7, 8, 9], [7]),
        sample=1,
        reward=0.0,
    )
    losses: list[float] = []
    for second in (GROUP[1], joined):
        data = compute_advantage(batch_of([GROUP[0], second, GROUP[2]]))
        old = data.batch["rollout_log_probs"]
        loss, _ = algos.compute_policy_loss_vanilla(
            old,
            old - 0.3,
            data.batch["advantages"],
            data.batch["response_mask"],
            config=config.ActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=4, clip_ratio=0.2),
        )
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_rewards_that_the_trainer_has_set_are_taken(system: System) -> None:
    data = batch_of(GROUP)
    data.batch["token_level_rewards"] = -data.batch["rm_scores"]
    found = advantages(compute_advantage(data, norm_adv_by_std_in_grpo=False))
    wanted = group_advantages([-(each.reward or 0.0) for each in GROUP], "mean")
    for each, value in zip(GROUP, wanted, strict=True):
        assert found[each.rollout_id] == pytest.approx([value], abs=1e-4)


def test_an_estimator_that_values_tokens_is_refused(system: System) -> None:
    shaped = rollout(turn(0, [1], [4, 5], reward=0.5), turn(1, [1, 4, 5, 6], [7, 8]), reward=1.0)
    rows = [row for each in (shaped, forked(sample=1, reward=0.0)) for row in training_rows(each)]
    config = system("omegaconf").OmegaConf.create({"gamma": 0.9})
    with pytest.raises(ConfigError, match="reinforce_plus_plus gives each token"):
        compute_advantage(data_proto(rows, 0, rewards="turns"), "reinforce_plus_plus", config=config)
