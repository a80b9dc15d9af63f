"""The library verifiers itself: environments of every kind, imported and played. Needs a package index."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Deadlines, Score, Submission
from rollouthub.errors import UsageError, VerifierError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import Message, ToolRequest, assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Candidate, Identity, ImportSource, find_importer
from rollouthub.protocols import Episode
from rollouthub.score import GroupMember, SampleGroup

pytestmark = pytest.mark.live
V0 = '''
import verifiers as vf
from datasets import Dataset


def rows(count):
    return Dataset.from_list([{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(count)])


class Stateful(vf.StatefulToolEnv):
    def __init__(self, **more):
        super().__init__(**more)
        self.add_tool(self.note, args_to_skip=["state"])

    async def note(self, word: str, state: dict) -> str:
        """Note a word."""
        state.setdefault("words", []).append(word)
        return f"noted {len(state['words'])}"

    def update_tool_args(self, tool_name, tool_args, messages, state, **more):
        return {**tool_args, "state": state}


def noted(state) -> float:
    return float(len(state.get("words", [])))


def best(completions) -> list[float]:
    while any("spin" in str(each[-1].content) for each in completions):
        pass
    lengths = [len(each[-1].content or "") for each in completions]
    return [float(length == max(lengths)) for length in lengths]


def stuck(completions) -> list[float]:
    while True:
        pass


def load_environment(kind="math"):
    math = vf.SingleTurnEnv(dataset=rows(4), rubric=vf.MathRubric())
    if kind == "math":
        return math
    if kind == "stateful":
        return Stateful(dataset=rows(4), rubric=vf.Rubric(funcs=[noted]))
    if kind == "group":
        return vf.SingleTurnEnv(dataset=rows(4), rubric=vf.Rubric(funcs=[best]))
    if kind == "stuck":
        return vf.SingleTurnEnv(dataset=rows(4), rubric=vf.Rubric(funcs=[stuck]))
    if kind == "judge":
        vf.ensure_keys(["OPENAI_API_KEY"])
        return vf.SingleTurnEnv(dataset=rows(4), rubric=vf.JudgeRubric())
    return vf.EnvGroup([math, Stateful(dataset=rows(2), rubric=vf.Rubric(funcs=[noted]))], env_names=["math", "tools"])
'''
V1 = '''
import verifiers.v1 as vf

__all__ = ["WordTaskset"]


class WordState(vf.State):
    words: list[str] = []


class WordTools(vf.Toolset[vf.ToolsetConfig, WordState]):
    TOOL_PREFIX = "word"

    @vf.tool
    def keep(self, word: str) -> str:
        """Keep a word."""
        self.state.words = [*self.state.words, word]
        return f"kept {len(self.state.words)}"


class WordData(vf.TaskData):
    word: str


class WordTask(vf.Task[WordData, WordState]):
    @classmethod
    def toolsets(cls, config):
        return [WordTools(vf.ToolsetConfig())]

    @vf.stop
    async def enough(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 3

    @vf.reward(weight=0.5)
    async def said(self, trace: vf.Trace) -> float:
        return float(self.data.word in trace.last_reply)

    @vf.metric
    async def kept(self, trace: vf.Trace) -> float:
        return float(len(trace.state.words))


class WordTaskset(vf.Taskset[WordTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            yield WordTask(WordData(idx=number, prompt=f"Word {number}?", word=f"secret{number}"), self.config.task)
            number += 1
'''


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two environments, one of each interface."""
    root = tmp_path_factory.mktemp("verifiers")
    for name, text in (("sums", V0), ("words", V1)):
        (root / "environments" / name).mkdir(parents=True)
        (root / "environments" / name / f"{name}.py").write_text(text)
        project = f'[project]\nname = "{name}"\ndependencies = ["verifiers"]\n'
        (root / "environments" / name / "pyproject.toml").write_text(project)
    return root


def looked(root: Path, name: str, **settings: Any) -> Candidate:
    """What the importer says of one environment."""
    try:
        (found,) = find_importer("verifiers").look(ImportSource.of(str(root / "environments" / name)), settings)
    except UsageError as error:
        pytest.skip(f"verifiers cannot be had here: {error}")
    if found.reasons and "choosing its dependencies" in found.reasons[0]:
        pytest.skip(f"verifiers cannot be had here: {found.reasons[0]}")
    return found


def written(root: Path, name: str, out: str, **settings: Any) -> Path:
    """A package of one environment."""
    source = ImportSource.of(str(root / "environments" / name))
    try:
        (file,) = find_importer("verifiers").write(source, [name], settings, root / out, Identity())
    except UsageError as error:
        if "choosing its dependencies" in str(error):
            pytest.skip(f"verifiers cannot be had here: {error}")
        raise
    return file


async def packaged(root: Path, name: str, out: str, **settings: Any) -> Path:
    """The same, from a test that is async: an import blocks."""
    return await anyio.to_thread.run_sync(lambda: written(root, name, out, **settings))


async def played(file: Path, split: str, number: int, *said: Message) -> Score:
    """An agent's messages in one rollout, and its score."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task(split, f"{split}-{number}", 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            return await _said(episode, *said)


async def _said(episode: Episode, *said: Message) -> Score:
    seat = episode.seats["agent"]
    for message in said:
        for request in message.tool_requests:
            assert not (await seat.call_tool(request.name, {"word": "a"})).is_error
        if not message.tool_requests:
            await seat.reply([message])
    return await episode.verify(Submission(transcript=(*seat.messages, *said)))


def calls(name: str, count: int) -> Message:
    """A message that makes calls."""
    return assistant("", *[ToolRequest(id=f"c{n}", name=name, arguments='{"word": "a"}') for n in range(count)])


async def test_its_own_rubric_scores_and_no_rollout_waits_for_anothers_pool(root: Path) -> None:
    file = await packaged(root, "sums", "math")
    rewards = [(await played(file, "train", 2, assistant(text))).reward for text in ("\\boxed{4}", "\\boxed{5}")]
    assert rewards == [1.0, 0.0]


async def test_tools_with_hidden_arguments_change_the_rollouts_own_state(root: Path) -> None:
    file = await packaged(root, "sums", "stateful", args={"kind": "stateful"})
    score = await played(file, "train", 0, calls("note", 2), assistant("Done."))
    assert (score.reward, score.metrics["num_turns"], score.metrics["note_calls"]) == (2.0, 2.0, 2.0)


async def test_a_group_of_environments_plays_each_row_in_its_own(root: Path) -> None:
    file = await packaged(root, "sums", "both", args={"kind": "both"})
    assert (await played(file, "train", 1, assistant("\\boxed{2}"))).reward == 1.0
    assert (await played(file, "train", 4, calls("note", 1), assistant("Done."))).reward == 1.0


async def test_group_rewards_are_scored_over_the_group(root: Path) -> None:
    file = await packaged(root, "sums", "group", args={"kind": "group"})
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        assert host.info.scores_groups
        card = await host.find_task("train", "train-0", 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            assert await episode.conclude(Submission(transcript=(assistant("short"),))) is None, (
                "it waits for its group"
            )
        said = [Submission(transcript=(assistant(text),)) for text in ("short", "the longest")]
        members = tuple(GroupMember(sample=n, submission=each) for n, each in enumerate(said))
        scores = await host.score_group(card, SampleGroup(members=members), seed=0, deadlines=Deadlines())
    assert [score.reward for score in scores] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "rewards"), [("group", [0.0, 0.0, 1.0]), ("stuck", None)], ids=["the agent's words", "the rubric itself"]
)
async def test_words_at_which_a_group_rubric_hangs_cost_their_own_sample_alone(
    root: Path, kind: str, rewards: list[float] | None
) -> None:
    file = await packaged(root, "sums", f"{kind}-words", args={"kind": kind})
    found = find_environment(str(file))
    said = [Submission(transcript=(assistant(text),)) for text in ("short", "spin", "the longest")]
    members = tuple(GroupMember(sample=n, submission=each) for n, each in enumerate(said))
    config = configured(found, {"verify_seconds": 4.0})
    async with open_in_process(found.name, found.environment, config) as host:
        card = await host.find_task("train", "train-0", 0)
        asked = host.score_group(card, SampleGroup(members=members), seed=0, deadlines=Deadlines(verify=60.0))
        if rewards is None:
            with pytest.raises(VerifierError, match="gives the group no score"):
                await asked
        else:
            assert [score.reward for score in await asked] == rewards


def test_a_judge_is_refused_and_what_lifts_that_is_named(root: Path) -> None:
    found = looked(root, "sums", args={"kind": "judge"})
    assert "asks a model itself" in found.reasons[0]
    assert found.lifted_by == ("judge=none",)
    assert looked(root, "sums", args={"kind": "judge"}, judge="none").runs


async def test_a_taskset_is_played_with_its_tools_its_stops_and_its_state(root: Path) -> None:
    file = await packaged(root, "words", "tasks", rows=5)
    score = await played(file, "tasks", 3, calls("word_keep", 2), assistant("It is secret3."))
    assert (score.reward, score.metrics) == (0.5, {"kept": 2.0, "said": 1.0})
    assert (await played(file, "tasks", 4, assistant("It is secret3."))).reward == 0.0
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task("tasks", "tasks-2", 0)
        assert "secret2" not in card.public.model_dump_json()
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            assert "secret2" not in repr((seat.messages, seat.tools))
            assert (await seat.call_tool("score", {})).is_error
