"""A group of two members whose two seats earn opposed rewards, followed to each trainer's own advantages or returns.

Both seats are the policy's; the team's reward is the same in both members, so that whoever takes that, or compares one
seat with the other, is caught. verl-agent's are in `drive_verl_agent_rewards.py`: its package has veRL's name.
"""

import copy
import pickle
import sys
import typing
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import typing_extensions

from rollouthub import Rollout, RolloutGroup
from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, batch_rows, training_rows
from rollouthub.trainers import agent_lightning, areal, openrlhf, skyrl, slime
from rollouthub.trainers.nemo_rl import gym_result
from rollouthub.trainers.roll.runner import result_of
from rollouthub.trainers.skyrl.seat_instance import SeatInstance
from rollouthub.trainers.trl.asynchronous import samples_of
from rollouthub.trainers.trl.rollouts import columns
from rollouthub.trainers.verl import compute_advantage, data_proto
from rollouthub.trainers.workers.one_shot import Unscored, reward_of
from tests.trainers import rewarded_episodes as episodes
from tests.trainers.absent import Absent, absent
from tests.trainers.marti_set_up import marti_generator
from tests.trainers.rewarded import ADVANTAGES, OPPOSED
from tests.trainers.roll_set_up import roll_classes
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> RolloutGroup:
    return anyio.run(episodes.opposed, tmp_path_factory.mktemp("opposed"))


def rows_of(group: RolloutGroup) -> list[tuple[str, int, Any]]:
    """(seat, member, row) of each row, in the order of the members."""
    return [(row.seat, place, row) for place, each in enumerate(group.rollouts) for row in training_rows(each)]


def wanted(group: RolloutGroup) -> list[float]:
    """The right advantage of each row."""
    return [ADVANTAGES[seat][place] for seat, place, _ in rows_of(group)]


def assert_all_are(values: Any, worth: float) -> None:
    found = values.tolist()
    assert found
    assert found == pytest.approx([worth] * len(found), abs=1e-5)


def test_the_hubs_own_rows_have_the_advantage_of_their_seats(group: RolloutGroup) -> None:
    assert [advantage for _, advantage in batch_rows([group], "mean").rows] == wanted(group)


def test_trls_asynchronous_trainer_has_each_seats_advantage_on_its_tokens(system: System, group: RolloutGroup) -> None:
    theirs = system("trl.experimental.async_grpo.async_grpo_trainer")
    samples, _ = samples_of(group, 1, "mean")
    for sample, worth, (_, _, row) in zip(samples, wanted(group), rows_of(group), strict=True):
        packed = theirs.TreeRow()
        packed.add(asdict(sample))
        batch = theirs.DataCollatorForRollout(pad_token_id=0)([[packed]])
        learnt = batch["advantages"][batch["token_index"] >= 0]
        assert len(learnt) == sum(row.response_mask)
        assert_all_are(learnt, worth)


def test_trls_rollout_func_trains_the_seat_that_is_named(system: System, group: RolloutGroup) -> None:
    system("trl")
    with pytest.raises(NotTrainable, match=r"giver, taker are trained.*name it by `seat`"):
        columns(group.rollouts, "longest", 0)
    for seat, rewards in OPPOSED.items():
        found = columns(group.rollouts, "longest", 0, seat)
        assert found["reward"] == list(rewards)
        own = [row for name, _, row in rows_of(group) if name == seat]
        assert found["completion_ids"] == [row.response_ids for row in own]
    with pytest.raises(
        NotTrainable, match="seat 'judge' has no turn of the run's model; seats that have: giver, taker"
    ):
        columns(group.rollouts, "longest", 0, "judge")


@pytest.mark.parametrize("estimator", ["grpo", "rloo"])
def test_verls_estimators_compare_a_seat_with_the_same_seat(
    system: System, group: RolloutGroup, estimator: str
) -> None:
    system("verl")
    settings = {"norm_adv_by_std_in_grpo": False} if estimator == "grpo" else {}
    data = compute_advantage(data_proto([row for *_, row in rows_of(group)], 0), estimator, **settings)
    scale = 1.0 if estimator == "grpo" else 2.0  # n / (n - 1)
    for place, worth in enumerate(wanted(group)):
        mask = data.batch["response_mask"][place].bool()
        assert_all_are(data.batch["advantages"][place][mask], scale * worth)


def test_verls_own_function_compares_seats_by_their_uid(system: System, group: RolloutGroup) -> None:
    trainer: Any = system("verl.trainer.ppo.ray_trainer")
    data = data_proto([row for *_, row in rows_of(group)], 0, uids=["u"] * 4)
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    data = trainer.compute_advantage(data, "grpo", norm_adv_by_std_in_grpo=False)
    for place, worth in enumerate(wanted(group)):
        assert_all_are(data.batch["advantages"][place][data.batch["response_mask"][place].bool()], worth)


def skyrl_trainer(batch: int) -> Any:
    """What two methods of SkyRL's trainer ask of it."""
    algorithm = SimpleNamespace(
        max_seq_len=None,
        off_policy_correction=SimpleNamespace(tis_ratio_type=None, sequence_mask_metric=None),
        zero_variance_filter=False,
        advantage_estimator="grpo",
        grpo_norm_by_std=False,
        gamma=1.0,
        lambd=1.0,
    )
    return SimpleNamespace(
        tokenizer=SimpleNamespace(pad_token_id=0),
        cfg=SimpleNamespace(
            trainer=SimpleNamespace(
                algorithm=algorithm,
                train_batch_size=batch,
                policy_mini_batch_size=batch,
                critic=SimpleNamespace(model=SimpleNamespace(path=None)),
            ),
            generator=SimpleNamespace(n_samples_per_prompt=2, step_wise_trajectories=True, merge_stepwise_output=False),
        ),
        all_metrics={},
        dispatch=SimpleNamespace(get_lcm_dp_size=lambda: 1),
    )


def skyrl_advantages(system: System, group: RolloutGroup, monkeypatch: pytest.MonkeyPatch, **shape: Any) -> Any:
    """The batch that SkyRL's trainer makes of two prompts' rollouts, with its advantages."""
    if sys.version_info < (3, 12):
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)  # pydantic refuses an older Python's
    base, trainer = system("skyrl.train.generators.base"), system("skyrl.train.trainer").RayPPOTrainer
    utils = system("skyrl.train.utils.trainer_utils")
    played = [(base.TrajectoryID(prompt, place), each) for prompt in "pq" for place, each in enumerate(group.rollouts)]
    output = skyrl.generator_output(played, skyrl.Shape(step_wise=True, **shape))
    utils.validate_generator_output(len(played), output, step_wise=True)
    keeper = skyrl_trainer(batch=2)
    uids = [each.instance_id for each in output["trajectory_ids"]]  # as its training loop has them
    output, uids = trainer.postprocess_generator_output(keeper, output, uids)
    data = trainer.convert_to_training_input(keeper, output, uids)
    data["values"] = None
    return trainer.compute_advantages_and_returns(keeper, data)


@pytest.mark.parametrize("token_rewards", [False, True])
def test_skyrls_trainer_compares_a_seat_with_the_same_seat(
    system: System, group: RolloutGroup, monkeypatch: pytest.MonkeyPatch, token_rewards: bool
) -> None:
    data = skyrl_advantages(system, group, monkeypatch, token_rewards=token_rewards)
    for place, worth in enumerate([*wanted(group), *wanted(group)]):
        assert_all_are(data["advantages"][place][data["response_mask"][place].bool()], worth)


def test_skyrl_masks_a_broken_member_at_each_seat_of_its_group(
    system: System, group: RolloutGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    system("skyrl")
    broken = group.rollouts[1].model_copy(update={"told": (SimpleNamespace(),)})
    base = system("skyrl.train.generators.base")
    played = [(base.TrajectoryID("p", place), each) for place, each in enumerate((*group.rollouts, broken))]
    output = skyrl.generator_output(played, skyrl.Shape(step_wise=True))
    masked = [place for place, mask in enumerate(output["loss_masks"]) if not any(mask)]
    assert [output["rewards"][place] for place in masked] == [0.5, 0.5]
    assert [str(output["trajectory_ids"][place].instance_id) for place in masked] == ["p/giver", "p/taker"]
    assert all(output["is_last_step"])


def test_skyrl_takes_one_seat_where_it_compares_all_rows_of_a_prompt(system: System, group: RolloutGroup) -> None:
    base = system("skyrl.train.generators.base")
    played = [(base.TrajectoryID("p", place), each) for place, each in enumerate(group.rollouts)]
    for shape in (skyrl.Shape(), skyrl.Shape(step_wise=True, takes_seats=False)):
        with pytest.raises(SupplyError, match="several_seats: 2"):
            skyrl.generator_output(played, shape)
    assert skyrl.generator_output(played, skyrl.Shape(seat="taker"))["rewards"] == list(OPPOSED["taker"])


def test_an_id_of_a_seat_survives_copies(system: System) -> None:
    system("skyrl")
    made = SeatInstance("a/b", "giver")
    for each in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (str(each), each.prompt) == ("a/b/giver", "a/b")
        assert each == "a/b"
        assert {each, "a/b", SeatInstance("a/b", "taker")} == {"a/b"}


def test_slimes_train_data_has_each_seats_advantage(
    checkout: Callable[..., Path], system: System, group: RolloutGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout("slime")
    system("ray")
    types: Any = system("slime.utils.types")
    for name in ("", ".srt", ".srt.constants", ".srt.server_args", ".srt.utils"):
        monkeypatch.setitem(sys.modules, f"sglang{name}", Absent(f"sglang{name}"))
    manager = import_module("slime.ray.rollout").RolloutManager.__ray_metadata__.modified_class
    args = Namespace(
        rewards_normalization=True, grpo_std_normalization=False, advantage_estimator="grpo", reward_key=None
    )
    made = [
        sample
        for place, each in enumerate(group.rollouts)
        for sample in slime.samples_of(each, types.Sample(group_index=0, index=place))
    ]
    keeper = Namespace(
        args=args,
        custom_convert_samples_to_train_data_func=None,
        _post_process_rewards=partial(slime.post_process_rewards, args),
    )
    assert manager._convert_samples_to_train_data(keeper, made)["rewards"] == wanted(group)
    assert slime.keep_group(args, made).keep
    for sample in made:  # each seat earns the same in every member: nothing to learn, though seats differ
        sample.reward = float(sample.metadata["rollouthub"]["seat"] == "giver")
    assert slime.keep_group(args, made).reason == "equal_rewards"


@pytest.fixture
def roll(
    checkout: Callable[..., Path], system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    checkout("roll")
    with roll_classes(system, monkeypatch) as found:
        yield found


def test_rolls_rewards_compare_a_seat_with_the_same_seat(roll: Any, group: RolloutGroup) -> None:
    batches: list[Any] = [roll.formed(each, number=place) for place, each in enumerate(group.rollouts)]
    spoken = [(turn.agent, place) for place, each in enumerate(group.rollouts) for turn in each.turns]
    joined = import_module("roll.distributed.scheduler.protocol").DataProto.concat(batches)
    batch = roll.utils.compute_discounted_returns(joined, "step_reinforce", 1.0)
    # Each step is worth what its seat earns at the end, and nothing of the other's.
    assert batch.batch["step_rewards"].tolist() == [OPPOSED[seat][place] for seat, place in spoken]
    assert len(set(batch.non_tensor_batch["traj_id"])) == 4
    config: Any = import_module("roll.pipeline.agentic.agentic_config")
    by_group = config.RewardNormalizationConfig(grouping="traj_group_id", norm_mean_type="group")
    asked = SimpleNamespace(adv_estimator="step_reinforce", reward_normalization=by_group, reward_clip=None)
    batch, _ = roll.utils.compute_response_level_rewards(batch, asked)
    assert batch.batch["response_level_rewards"].tolist() == [ADVANTAGES[seat][place] for seat, place in spoken]


def test_roll_leaves_out_what_it_cannot_tell_the_seats_of(roll: Any, group: RolloutGroup) -> None:
    first = group.rollouts[0]
    dropping = import_module("rollouthub.trainers.roll").HubGroupFilter(None, None, "train")
    assert not dropping.filter(0, 0, [roll.formed(each) for each in group.rollouts])
    assert dropping.filter(0, 0, [roll.formed(first, lost=1)])
    # Its own managers take one score for all rows.
    told = result_of(first)
    assert (told["status"], told["score"]) == ("Failed", 0.0)
    assert "seats earned different rewards (giver 1, taker 0)" in told["agent_exit_reason"]


def test_marti_has_what_each_seat_earned_in_each_member(
    checkout: Callable[..., Path], system: System, group: RolloutGroup
) -> None:
    checkout("marti")
    with marti_generator(system) as made:
        found = [sorted(made(each, *OPPOSED)) for each in group.rollouts]
    assert found == [
        sorted((place, rewards[member]) for place, rewards in enumerate(OPPOSED.values()) for _ in range(2))
        for member in range(2)
    ]


def test_openrlhf_compares_the_seat_that_is_named(
    system: System, group: RolloutGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    system("openrlhf.utils.agent")
    torch = system("torch")
    if util.find_spec("vllm") is None:
        for name in ("vllm", "vllm.inputs", "vllm.utils"):
            monkeypatch.setitem(sys.modules, name, Absent(name))
    with pytest.raises(NotTrainable, match="giver, taker are trained"):
        openrlhf.response_of(group.rollouts[0], "p", "l")
    generator: Any = import_module("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator
    with absent("flash_attn", "deepspeed", "peft", "bitsandbytes", "liger_kernel", "ring_flash_attn"):
        maker: Any = import_module("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker
    for seat in OPPOSED:
        made = [
            generator._process_response_into_experience(
                SimpleNamespace(), openrlhf.response_of(each, "p", "l", seat=seat)
            )
            for each in group.rollouts
        ]
        for place, experience in enumerate(made):
            experience.index, experience.kl = [place], torch.zeros_like(experience.action_mask, dtype=torch.float32)
        keeper = openrlhf_maker(maker)
        learnt = maker.compute_advantages_and_returns(keeper, made)
        for experience, worth in zip(learnt, ADVANTAGES[seat], strict=True):
            assert_all_are(experience.advantages[experience.action_mask.bool()], worth)


def openrlhf_maker(maker: Any) -> Any:
    """What a method of OpenRLHF's experience maker asks of it."""
    advantage = SimpleNamespace(
        estimator="dr_grpo", gamma=1.0, lambd=1.0, is_whiten=False, no_std_norm=True, normalize=False
    )
    args = SimpleNamespace(
        rollout=SimpleNamespace(n_samples_per_prompt=2),
        algo=SimpleNamespace(advantage=advantage),
        reward=SimpleNamespace(
            clip_range=None, overlong_buffer_len=None, overlong_penalty_factor=0.0, stop_properly_penalty_coef=None
        ),
    )
    keeper = SimpleNamespace(
        strategy=SimpleNamespace(args=args), advantage_estimator="dr_grpo", kl_ctl=SimpleNamespace(value=0.0)
    )
    keeper.get_cumulative_returns = partial(maker.get_cumulative_returns, keeper)
    return keeper


def test_areal_has_the_return_of_each_seat(system: System, group: RolloutGroup) -> None:
    system("areal")
    found = [areal.trajectory([row])["rewards"].tolist() for *_, row in rows_of(group)]
    assert found == [[OPPOSED[seat][place]] for seat, place, _ in rows_of(group)]


def test_who_takes_one_number_or_one_conversation_refuses_seats_that_differ(group: RolloutGroup) -> None:
    first = group.rollouts[0]
    with pytest.raises(Unscored, match=r"giver 1, taker 0"):
        reward_of(first)  # AReaL's proxy and agent-lightning's gateway
    with pytest.raises(NotTrainable, match="several_seats"):
        agent_lightning.replay_events(first)
    with pytest.raises(NotTrainable, match="several_seats"):
        gym_result(first)
    assert gym_result(first, seat="taker")["reward"] == OPPOSED["taker"][0]


def test_one_learning_seat_earns_its_own_and_not_the_teams(group: RolloutGroup) -> None:
    def against(rollout: Rollout, frozen: str) -> Rollout:
        player: Any = SimpleNamespace(model="openai/other")
        return rollout.model_copy(update={"seats": {frozen: player}})

    for seat, other in (("giver", "taker"), ("taker", "giver")):
        members: Sequence[Rollout] = [against(each, other) for each in group.rollouts]
        assert tuple(map(reward_of, members)) == OPPOSED[seat]
        assert columns(members, "longest", 0)["reward"] == list(OPPOSED[seat])
        one = RolloutGroup("g", group.environment, group.task, tuple(members), policy_version=1)
        assert [advantage for _, advantage in batch_rows([one], "mean").rows] == list(ADVANTAGES[seat])
