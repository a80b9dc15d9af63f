"""tinker-cookbook's own rollouts and data over the hub's environments."""

import asyncio
import pickle
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable
from rollouthub.store import open_run
from rollouthub.trainers import tinker as ours
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from tests.models.tokens.chatml import ChatMl
from tests.trainers.speaker import Speaker
from tests.trainers.verl_set_up import WORLD, System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


class Tokenizer(ChatMl):
    """As transformers' tokenizers name the token that ends a turn."""

    @property
    def eos_token_id(self) -> int:
        return self.end


@pytest.fixture
def cookbook(system: System) -> Generator[System]:
    """The cookbook's modules, with a tokenizer that it knows by name."""
    tokenizers = system("tinker_cookbook.tokenizer_utils")
    system("tinker")
    tokenizers.register_tokenizer("acme/tiny", Tokenizer)
    yield system
    THREAD_WORKERS.close()
    tokenizers.unregister_tokenizer("acme/tiny")


def settings(folder: Path, environment: str = "arithmetic", **more: str) -> str:
    path = folder / "play.toml"
    tables = "".join(f"[{name}]\n{text}\n" for name, text in more.items())
    path.write_text(f'environments = ["{environment}"]\n{tables}[training]\ndirectory = "{folder / "runs"}"\n')
    return str(path)


async def first_group(play: str, size: int) -> Any:
    builder = ours.HubDatasetBuilder(settings=play, model_name="acme/tiny", batch_size=1, group_size=size)
    data, _ = await builder()
    return data.get_batch(0)[0]


def completer(system: System, speaker: Speaker, words: str | None = None) -> Any:
    """A policy as the cookbook asks one; with `words` it says these."""
    completers = system("tinker_cookbook.completers")

    async def complete(model_input: Any, stop: Any, **rest: Any) -> Any:
        assert stop == [speaker.tokenizer.end]
        if words is not None:
            ids = [*speaker.tokenizer.encode(words, add_special_tokens=False), speaker.tokenizer.end]
            return completers.TokensWithLogprobs(ids, [-0.5] * len(ids), "stop")
        said = speaker.speak(model_input.to_ints())
        return completers.TokensWithLogprobs(said.token_ids, said.logprobs, "stop")

    return complete


async def test_the_cookbooks_groups_are_played_and_its_data_are_the_very_tokens(
    cookbook: System, tmp_path: Path
) -> None:
    play = settings(tmp_path, set="terms = 2\ndigits = 2")
    builder = ours.HubDatasetBuilder(settings=play, model_name="acme/tiny", batch_size=2, group_size=4)
    data, held_out = await builder()
    assert (isinstance(data, cookbook("tinker_cookbook.rl.types").RLDataset), held_out) == (True, None)
    group = pickle.loads(pickle.dumps(data.get_batch(0)[0]))
    speaker = Speaker()
    rollouts, processing = cookbook("tinker_cookbook.rl.rollouts"), cookbook("tinker_cookbook.rl.data_processing")
    played = await rollouts.do_group_rollout(group, completer(cookbook, speaker))
    rewards = played.get_total_rewards()
    assert sorted(rewards) == [0.0, 0.0, 1.0, 1.0]  # every second answer is wrong
    learnt, _ = processing.assemble_training_data([played], processing.compute_advantages([played]))
    known = speaker.rows()
    assert len(learnt) == len(known) == 4
    for datum in learnt:
        ids = (datum.model_input.to_ints()[0], *datum.loss_fn_inputs["target_tokens"].tolist())
        mask, logprobs = known[tuple(ids)]
        assert datum.loss_fn_inputs["mask"].tolist() == mask[1:]
        assert datum.loss_fn_inputs["logprobs"].tolist() == logprobs[1:]
    (run,) = (tmp_path / "runs").iterdir()
    with open_run(run) as reader:
        recorded = list(reader.rollouts())
    assert sorted(rollout.reward or 0.0 for rollout in recorded) == sorted(rewards)
    assert len({rollout.seed for rollout in recorded}) == 1


@pytest.mark.parametrize(
    ("world", "refused"),
    [("broken = 1", SupplyError), ('constant = 1\nsuspect = "it read the answer"', NotTrainable)],
)
async def test_what_is_not_to_be_learnt_from_is_an_error_and_no_zero(
    cookbook: System, tmp_path: Path, world: str, refused: type[Exception]
) -> None:
    group = await first_group(settings(tmp_path, str(WORLD), set=world), 2)
    env, other = await group.make_envs()
    with pytest.raises(refused):
        await env.initial_observation()
        await env.step([*ChatMl().encode("anything", add_special_tokens=False), ChatMl().end])
    with pytest.raises(refused):
        await cookbook("tinker_cookbook.rl.rollouts").do_single_rollout(completer(cookbook, Speaker(), "words"), other)
    await group.cleanup()


async def test_episodes_that_the_cookbook_gives_up_are_broken_off(cookbook: System, tmp_path: Path) -> None:
    group = await first_group(settings(tmp_path), 2)
    envs = await group.make_envs()
    for env in envs:
        await env.initial_observation()
    await group.cleanup()
    with anyio.fail_after(30):
        for env in envs:
            with pytest.raises(asyncio.CancelledError):
                await env.step([1])


async def test_a_limit_of_the_hubs_ends_the_episode_which_is_scored(cookbook: System, tmp_path: Path) -> None:
    group = await first_group(settings(tmp_path, set="terms = 2", limits="max_turns = 1"), 1)
    (env,) = await group.make_envs()
    played = await cookbook("tinker_cookbook.rl.rollouts").do_single_rollout(completer(cookbook, Speaker()), env)
    assert len(played.transitions) == 1
    assert played.stop_reason == "max_turns"
