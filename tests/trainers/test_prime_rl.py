"""prime-rl: samples of rows made by hand; and its own packing, transport and loader behind a stream."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rollouthub
from rollouthub import Rollout
from rollouthub.errors import ConfigError
from rollouthub.export import batch_rows, group_rows
from rollouthub.generation import Sampling
from rollouthub.messages import Media, Message
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from rollouthub.trainers.prime_rl import samples_of
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl
from tests.trainers.speaker import Speaker
from tests.trainers.verl_set_up import System


@dataclass
class TrainingSample:
    """The fields that are filled of prime-rl's class (559b44772, `src/prime_rl/transports/rollouts/types.py`)."""

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str
    advantages: list[float] | None = None


@pytest.fixture
def shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """prime-rl's class, in a module of its name."""
    module = ModuleType("prime_rl.transports.rollouts")
    vars(module)["TrainingSample"] = TrainingSample
    monkeypatch.setitem(sys.modules, "prime_rl.transports.rollouts", module)


def pair(*turns: Any) -> list[Rollout]:
    return [rollout(*turns, reward=1.0), rollout(*turns, reward=0.0)]


@pytest.mark.usefixtures("shape")
def test_a_sample_has_every_token_with_its_mask_logprob_and_advantage() -> None:
    good, bad = samples_of(group_rows(pair(turn(0, [1, 2], [4, 5]), turn(1, [1, 2, 4, 5, 6], [7])), "mean"))
    assert good == TrainingSample(
        token_ids=[1, 2, 4, 5, 6, 7],
        mask=[False, False, True, True, False, True],
        logprobs=[0.0, 0.0, -0.125, -0.25, 0.0, -0.125],
        temperatures=[1.0] * 6,
        env_name=rollout().environment.name,
        advantages=[0.0, 0.0, 0.5, 0.5, 0.0, 0.5],
    )
    assert bad.advantages == [0.0, 0.0, -0.5, -0.5, 0.0, -0.5]


@pytest.mark.usefixtures("shape")
def test_a_temperature_stands_where_prime_rl_divides_the_logits_of_the_next_token() -> None:
    turns = (turn(0, [1, 2], [4, 5], sampling={"temperature": 0.5}), turn(1, [1, 2, 4, 5, 6], [7]))
    [sample, _] = samples_of(group_rows(pair(*turns), "mean"), temperature=0.75)
    assert sample.temperatures == [0.75, 0.5, 0.5, 0.75, 0.75, 0.75]


@pytest.mark.usefixtures("shape")
def test_a_forked_rollout_is_several_samples() -> None:
    made = samples_of(group_rows([forked(), rollout(reward=0.0)], "mean"))
    assert [each.token_ids for each in made[:2]] == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 7]]


@pytest.mark.usefixtures("shape")
def test_pictures_and_a_temperature_of_zero_are_refused_in_words() -> None:
    shown = Message(role="user", content=(Media(digest=f"sha256:{0:064x}", mime_type="image/png"),))
    with pytest.raises(ConfigError, match="shows pictures"):
        samples_of(group_rows([rollout(turn(0, [1], [2], messages=(shown,)))], "mean"))
    greedy = rollout(turn(0, [1], [2], sampling={"temperature": 0}))
    with pytest.raises(ConfigError, match="temperature 0, and prime-rl divides by it"):
        samples_of(group_rows([greedy], "mean"))


# --- its own packing, transport and loader ------------------------------------------------------------------------


class Engine:
    """A policy in this process."""

    def __init__(self) -> None:
        self.speaker = Speaker()

    async def sample(self, prompt_ids: Any, sampling: Sampling, *, session: str, media: Any) -> Sampled:
        said = self.speaker.speak(prompt_ids)
        return Sampled(said.token_ids, said.logprobs, "stop")


@pytest.mark.live
@pytest.mark.filterwarnings("ignore")
async def test_prime_rls_trainer_loads_what_a_stream_sends_in_its_orchestrators_place(
    checkout: Callable[..., Path], system: System, tmp_path: Path
) -> None:
    checkout("prime-rl", "packages/prime-rl-configs/src")
    checkout("prime-rl", "src")
    engine = Engine()
    asked = rollouthub.stream_rollouts(
        environments=("arithmetic",),
        set={"terms": 2, "digits": 2},
        model=TokenModel("policy", engine, HfChatFormat(ChatMl())),
        limit=4,
        repeats=2,
        sampling={"temperature": 0.5},
        directory=tmp_path / "run",
    )
    batch, transports = system("prime_rl.trainer.batch"), system("prime_rl.transports.rollouts")
    to_tensors: Any = system("prime_rl.trainer.rl.data").DataLoader._micro_batch_to_tensor
    transport = system("prime_rl.configs.shared").FileSystemTransportConfig()
    sender = transports.setup_micro_batch_sender(tmp_path, 2, 1, transport)
    async with asked as supply:
        made = batch_rows(await supply.batch(4), "mean")
    assert len(made.rows) == 8
    await sender.send(batch.prepare_batch(samples_of(made.rows), 4096, 2, batch.build_bin_cost(None)))
    batches: list[Any] = []
    for rank in range(2):
        receiver = transports.setup_micro_batch_receiver(tmp_path, rank, 1, transport)
        receiver.wait()
        batches += [to_tensors(None, each) for each in receiver.receive()]
    known = engine.speaker.rows()
    for tensors in batches:
        columns = ("input_ids", "loss_mask", "inference_logprobs", "temperatures", "advantages")
        values = [tensors[name][0].split(tensors["sequence_lengths"]) for name in columns]
        for ids, mask, logprobs, temperatures, advantages in zip(*values, strict=True):
            learnt, given = known.pop(tuple(ids.tolist()))
            assert mask.tolist() == [bool(each) for each in learnt]
            assert logprobs.tolist() == given
            assert set(temperatures[:-1][mask[1:]].tolist()) == {0.5}
            assert not advantages[~mask].any()
    assert not known
