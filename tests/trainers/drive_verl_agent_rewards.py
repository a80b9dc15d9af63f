"""Run with verl-agent's checkout first on the path: rewards of the hub's records in its own returns and advantages."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import anyio

from rollouthub import Rollout
from rollouthub.export import Credit, gigpo_advantages
from rollouthub.trainers.verl_agent import step_rows
from tests.models.tokens.chatml import END, trained
from tests.trainers import rewarded_episodes as episodes
from tests.trainers.rewarded import ADVANTAGES, OPPOSED, RANKS, SEATS, VERDICT

NAMES = ("rewards", "traj_uid", "uid", "active_masks", "anchor_obs", "episode_rewards", "episode_lengths")


def batch_of(rollouts: Iterable[Rollout]) -> Any:
    """The rows of rollouts as verl-agent's batch."""
    numpy: Any = import_module("numpy")
    torch: Any = import_module("torch")
    rows = [row for rollout in rollouts for row in step_rows(rollout)]
    width = max(len(row["response_ids"]) for row in rows)
    padded = [[*row["response_ids"], *[0] * (width - len(row["response_ids"]))] for row in rows]
    masks = [[*row["response_mask"], *[0] * (width - len(row["response_mask"]))] for row in rows]
    prompts = torch.ones((len(rows), 1), dtype=torch.int64)
    masks = torch.tensor(masks)
    return import_module("verl").DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "input_ids": torch.cat([prompts, torch.tensor(padded)], dim=1),
            "responses": torch.tensor(padded),
            "response_mask": masks,
            "attention_mask": torch.cat([prompts, masks], dim=1),
        },
        non_tensors={name: numpy.array([row[name] for row in rows], dtype=object) for name in NAMES}
        | {"data_source": numpy.array([row["data_source"] for row in rows], dtype=object)},
    )


def check_one_seat_and_two(gigpo: Any, scorer: Any, folder: Path) -> None:
    """The rewards of turns, and those of seats, of one rollout."""
    stepwise = batch_of([anyio.run(episodes.stepwise, folder)])
    assert stepwise.non_tensor_batch["rewards"].tolist() == episodes.STEPS
    assert gigpo.compute_step_discounted_returns(stepwise, 1.0).tolist() == episodes.RETURNS
    assert scorer(stepwise).sum(-1).tolist() == [VERDICT] * 2

    record = anyio.run(episodes.divided, folder)
    spoken = [turn.agent for turn in record.turns]
    divided = batch_of([record])
    assert gigpo.compute_step_discounted_returns(divided, 1.0).tolist() == [SEATS[seat] for seat in spoken]
    assert scorer(divided).sum(-1).tolist() == [SEATS[seat] for seat in spoken]


def check_opposed_seats(gigpo: Any, scorer: Any, folder: Path) -> None:
    """A group of seats that play against each other: their advantages, as episodes and by their anchor states."""
    opposed = anyio.run(episodes.opposed, folder)
    spoken = [(turn.agent, place) for place, each in enumerate(opposed.rollouts) for turn in each.turns]
    batch = batch_of(opposed.rollouts)
    returns = gigpo.compute_step_discounted_returns(batch, 1.0)
    assert returns.tolist() == [OPPOSED[seat][place] for seat, place in spoken]
    others, mask = batch.non_tensor_batch, batch.batch["response_mask"]
    found = gigpo.episode_norm_reward(scorer(batch), mask, others["uid"], others["traj_uid"], remove_std=True)
    assert found[:, 0].tolist() == [ADVANTAGES[seat][place] for seat, place in spoken]

    ways: tuple[tuple[str, Literal["mean", "mean_std"]], ...] = (("mean_norm", "mean"), ("mean_std_norm", "mean_std"))
    for mode, method in ways:
        theirs, _ = gigpo.compute_gigpo_outcome_advantage(
            scorer(batch),
            gigpo.compute_step_discounted_returns(batch, 0.5),
            mask,
            others["anchor_obs"],
            others["uid"],
            others["traj_uid"],
            mode=mode,
            step_advantage_w=0.75,
        )
        ours: Any = gigpo_advantages(opposed.rollouts, Credit(discount=0.5), step_weight=0.75, method=method)
        flat = [ours[place][turn.index] for place, each in enumerate(opposed.rollouts) for turn in each.turns]
        assert len(set(flat)) > 2, "the turns of a seat differ by their anchor states"
        assert all(abs(one - other) < 1e-5 for one, other in zip(flat, theirs[:, 0].tolist(), strict=True))


def check_ranked_group(gigpo: Any, scorer: Any, folder: Path) -> None:
    """A group whose rewards are ranks."""
    group = anyio.run(episodes.ranked, folder)
    ranked = batch_of(group.rollouts)
    rewards = scorer(ranked)
    assert rewards.sum(-1).tolist() == list(RANKS)
    others = ranked.non_tensor_batch
    returns = gigpo.compute_step_discounted_returns(ranked, 1.0)
    advantages, _ = gigpo.compute_gigpo_outcome_advantage(
        rewards,
        returns,
        ranked.batch["response_mask"],
        others["anchor_obs"],
        others["uid"],
        others["traj_uid"],
        mode="mean_norm",
    )
    # One turn each, from one anchor: what it is above its group's mean as an episode, and as a step once more.
    mean = sum(RANKS) / len(RANKS)
    assert [round(each, 5) for each in advantages[:, 0].tolist()] == [round(2 * (rank - mean), 5) for rank in RANKS]


def main(folder: Path) -> None:
    gigpo: Any = import_module("gigpo.core_gigpo")
    manager: Any = import_module("agent_system.reward_manager")
    transformers: Any = import_module("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    scorer = manager.EpisodeRewardManager(tokenizer, 0, False)
    for check in (check_one_seat_and_two, check_opposed_seats, check_ranked_group):
        check(gigpo, scorer, folder)
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
