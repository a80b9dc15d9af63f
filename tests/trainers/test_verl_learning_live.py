"""veRL's own batch, advantages and losses over the hub's rows, against plain references."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.authoring.rewards import group_advantages
from rollouthub.export import TrainingRow, training_rows
from rollouthub.trainers import verl as ours
from tests.export.made import rollout, turn
from tests.trainers.verl_set_up import (
    System,
)

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def group_of(rewards: Sequence[float], group: str) -> list[Rollout]:
    """Rollouts of different lengths, the environment's words between the policy's."""
    return [
        rollout(
            turn(0, [3, 4, 5][: 1 + place % 3], [10 + place, 11]),
            turn(1, [*[3, 4, 5][: 1 + place % 3], 10 + place, 11, 20, 21], [12] * (1 + place)),
            reward=reward,
            group=group,
            sample=place,
        )
        for place, reward in enumerate(rewards)
    ]


def training_batch() -> tuple[list[TrainingRow], list[Rollout]]:
    rollouts = [*group_of([1.0, 0.0, 0.5, 0.25], "a"), *group_of([0.0, 1.0, 1.0], "b"), *group_of([0.5, 0.5], "c")]
    return [row for each in rollouts for row in training_rows(each)], rollouts


def test_a_batch_survives_verls_own_handling_with_every_value_as_it_was(verl: ModuleType) -> None:
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, vocabulary=64)
    data.check_consistency()
    again = verl.DataProto.concat(data.chunk(3))
    found = ours.rows_of_data_proto(again)
    assert [
        (each.uid, each.prompt_ids, each.response_ids, each.response_mask, each.response_logprobs, each.reward)
        for each in found
    ] == [
        (
            row.rollout.group_id,
            row.prompt_ids,
            row.response_ids,
            row.response_mask,
            row.response_logprobs,
            row.reward,
        )
        for row in rows
    ]


def test_batches_of_a_stream_are_whole_groups(verl: ModuleType) -> None:
    _, rollouts = training_batch()
    batches = list(ours.data_protos(iter(rollouts), 0, batch_rows=4))
    assert [len(batch) for batch in batches] == [4, 5]
    assert set(batches[0].non_tensor_batch["uid"]) == {"a"}


def by_group(rollouts: Sequence[Rollout], method: Any) -> list[float]:
    """The hub's own advantages, group by group."""
    found: list[float] = []
    for group in dict.fromkeys(each.group_id for each in rollouts):
        rewards = [each.reward for each in rollouts if each.group_id == group]
        found += [value or 0.0 for value in group_advantages(rewards, method)]
    return found


@pytest.mark.parametrize(("estimator", "method"), [("grpo", "mean"), ("rloo", "leave_one_out")])
def test_verls_advantages_are_the_hubs(system: System, estimator: str, method: str) -> None:
    algos = system("verl.trainer.ppo.core_algos")
    rows, rollouts = training_batch()
    data = ours.data_proto(rows, 0)
    mask = data.batch["response_mask"]
    settings = {"norm_adv_by_std_in_grpo": False} if estimator == "grpo" else {}
    advantages, _ = algos.get_adv_estimator_fn(estimator)(
        token_level_rewards=data.batch["rm_scores"],
        response_mask=mask,
        index=data.non_tensor_batch["uid"],
        **settings,
    )
    wanted = by_group(rollouts, method)
    for place, value in enumerate(wanted):
        length = int(mask[place].sum())
        assert advantages[place][mask[place].bool()].tolist() == pytest.approx([value] * length, abs=1e-6)
    assert advantages[mask == 0].abs().max() == 0


def test_verls_normalised_advantages_agree_with_a_plain_reference(system: System) -> None:
    algos = system("verl.trainer.ppo.core_algos")
    rows, rollouts = training_batch()
    data = ours.data_proto(rows, 0)
    advantages, _ = algos.compute_grpo_outcome_advantage(
        data.batch["rm_scores"], data.batch["response_mask"], data.non_tensor_batch["uid"]
    )
    for place, each in enumerate(rollouts):
        group = [other.reward or 0.0 for other in rollouts if other.group_id == each.group_id]
        mean = sum(group) / len(group)
        std = math.sqrt(sum((reward - mean) ** 2 for reward in group) / (len(group) - 1))
        wanted = ((each.reward or 0.0) - mean) / (std + 1e-6)
        assert advantages[place][0].item() == pytest.approx(wanted, abs=1e-5)


def test_verls_generalised_advantages_pass_over_what_the_environment_wrote(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, rewards="turns")
    mask, rewards = data.batch["response_mask"], data.batch["rm_scores"]
    values = torch.linspace(-1, 1, mask.numel()).reshape(mask.shape) * mask
    gamma, lam = 0.9, 0.8
    _, returns = algos.compute_gae_advantage_return(rewards, values, mask, gamma, lam)
    for place in range(len(rows)):
        tokens = [token for token in range(mask.shape[1]) if mask[place, token]]
        following, running = 0.0, 0.0
        for token in reversed(tokens):
            value = values[place, token].item()
            running = rewards[place, token].item() + gamma * following - value + gamma * lam * running
            following = value
            assert returns[place, token].item() == pytest.approx(running + value, abs=1e-5)


def reference_loss(
    old: Sequence[float], new: Sequence[float], advantages: Sequence[float], mask: Sequence[float]
) -> float:
    """PPO's clipped loss with a dual clip, a token at a time."""
    total = 0.0
    for before, now, advantage, learnt in zip(old, new, advantages, mask, strict=True):
        if not learnt:
            continue
        ratio = math.exp(now - before)
        loss = max(-advantage * ratio, -advantage * min(max(ratio, 0.8), 1.2))
        total += min(-advantage * 3.0, loss) if advantage < 0 else loss
    return total / sum(mask)


def actor_config(system: System) -> Any:
    config = system("verl.workers.config")
    return config.ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=4, ppo_mini_batch_size=4, clip_ratio=0.2
    )


def test_verls_policy_loss_agrees_with_a_plain_reference(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0)
    old, mask = data.batch["rollout_log_probs"], data.batch["response_mask"]
    new = old + torch.linspace(-2, 2, old.numel()).reshape(old.shape)
    advantages, _ = algos.compute_grpo_outcome_advantage(data.batch["rm_scores"], mask, data.non_tensor_batch["uid"])
    loss, _ = algos.get_policy_loss_fn("vanilla")(
        old_log_prob=old,
        log_prob=new,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=actor_config(system),
    )
    flat = [each.flatten().tolist() for each in (old, new, advantages, mask)]
    assert loss.item() == pytest.approx(reference_loss(*flat), rel=1e-5)


def test_a_step_on_a_hub_batch_makes_what_was_rewarded_likelier(system: System, model_folder: Path) -> None:
    algos, torch, transformers = system("verl.trainer.ppo.core_algos"), system("torch"), system("transformers")
    functional = system("verl.utils.torch_functional")
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(model_folder))
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, vocabulary=512)
    batch, answers = data.batch, data.batch["responses"].shape[1]
    mask = batch["response_mask"]
    advantages, _ = algos.compute_grpo_outcome_advantage(batch["rm_scores"], mask, data.non_tensor_batch["uid"])

    def logprobs() -> Any:
        logits = model(batch["input_ids"], batch["attention_mask"], position_ids=batch["position_ids"]).logits
        return functional.logprobs_from_logits(logits[:, -answers - 1 : -1], batch["responses"])

    old = logprobs().detach()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(5):
        loss, _ = algos.compute_policy_loss_vanilla(old, logprobs(), advantages, mask, config=actor_config(system))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    change = (logprobs().detach() - old) * mask
    assert (change * advantages).sum() > 0
    assert change[advantages.sum(-1) > 0].sum() > change[advantages.sum(-1) < 0].sum()


def test_a_masked_row_gives_no_gradient(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows[:4], 0)
    mask = data.batch["response_mask"].clone()
    mask[2] = 0
    new = data.batch["rollout_log_probs"].clone().requires_grad_()
    advantages, _ = algos.compute_grpo_outcome_advantage(data.batch["rm_scores"], mask, data.non_tensor_batch["uid"])
    loss, _ = algos.compute_policy_loss_vanilla(
        data.batch["rollout_log_probs"], new, advantages, mask, "seq-mean-token-mean", actor_config(system)
    )
    loss.backward()
    assert new.grad is not None
    assert new.grad[2].abs().sum() == 0
    assert new.grad[0].abs().sum() > 0
    assert torch.isfinite(loss)
