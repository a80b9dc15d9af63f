"""The library inspect_ai itself: tasks of every kind, imported and played. Needs a package index."""

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
from rollouthub.protocols import EnvironmentHost

pytestmark = pytest.mark.live
TASKS = '''
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, Sample, csv_dataset
from inspect_ai.scorer import choice, includes, match, model_graded_qa
from inspect_ai.solver import basic_agent, generate, multiple_choice, self_critique, system_message, use_tools
from inspect_ai.tool import bash, tool


@tool
def add():
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: The first.
            y: The second.
        """
        return x + y

    return execute


def rows():
    return csv_dataset("rows.csv", FieldSpec(input="question", target="answer", id="name"))


@task
def sums():
    return Task(dataset=rows(), solver=[system_message("Be short."), use_tools(add()), generate()], scorer=match())


@task
def chosen():
    samples = [Sample(input="Biggest?", choices=["ant", "whale"], target="B")]
    return Task(dataset=samples, solver=multiple_choice(), scorer=choice())


@task
def agent():
    return Task(dataset=rows(), solver=basic_agent(tools=[add()], message_limit=20), scorer=includes())


@task
def judged():
    return Task(dataset=rows(), scorer=model_graded_qa())


@task
def critic():
    return Task(dataset=rows(), solver=[generate(), self_critique()], scorer=includes())


@task
def shell():
    return Task(dataset=rows(), solver=[use_tools(bash()), generate()], scorer=includes())


@task
def boxed():
    return Task(dataset=rows(), solver=generate(), scorer=includes(), sandbox="docker")


@task
def hub_named(split: str):
    from inspect_ai.dataset import hf_dataset
    return Task(dataset=hf_dataset("nobody/nothing", split=split), scorer=includes())
'''


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of tasks and their data."""
    root = tmp_path_factory.mktemp("inspect")
    (root / "tasks").mkdir()
    (root / "tasks" / "tasks.py").write_text(TASKS)
    (root / "tasks" / "rows.csv").write_text("question,answer,name\nWhat is 1 + 1?,secret2,one\nWhat is 2 + 2?,4,two\n")
    return root


def looked(root: Path, *names: str, **settings: Any) -> dict[str, Candidate]:
    """What the importer says of some tasks."""
    try:
        found = find_importer("inspect").look(ImportSource.of(str(root / "tasks"), names), settings)
    except UsageError as error:
        if "choosing its dependencies" in str(error):
            pytest.skip(f"inspect_ai cannot be had here: {error}")
        raise
    return {each.id: each for each in found}


async def written(root: Path, name: str, **settings: Any) -> Path:
    """A package of one task, once."""
    if found := list((root / name).glob("*_task.py")):
        return found[0]

    def write() -> Path:
        looked(root, name, **settings)
        source = ImportSource.of(str(root / "tasks"), (name,))
        (file,) = find_importer("inspect").write(source, [name], settings, root / name, Identity())
        return file

    return await anyio.to_thread.run_sync(write)


async def said(host: EnvironmentHost, name: str, *messages: Message, answer: str | None = None) -> Score:
    """An agent's messages in one rollout, and its score."""
    card = await host.find_task("test", name, 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        seat = episode.seats["agent"]
        assert "secret" not in repr((seat.messages, seat.tools))
        for message in messages:
            for request in message.tool_requests:
                assert not (await seat.call_tool(request.name, {"x": 1, "y": 1})).is_error
            if not message.tool_requests:
                await seat.reply([message])
        if answer is not None:
            await seat.call_tool("submit", {"answer": answer})
        return await episode.verify(Submission(transcript=(*seat.messages, *messages), answer=answer))


async def played(file: Path, name: str, *messages: Message, answer: str | None = None) -> Score:
    """The same, in a host of its own."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        return await said(host, name, *messages, answer=answer)


async def test_a_task_with_tools_is_played_by_its_solvers_and_scored_by_its_scorer(root: Path) -> None:
    file = await written(root, "sums")
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task("test", "one", 0)
        assert "secret" not in card.public.model_dump_json()
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            assert [message.text for message in seat.messages] == ["Be short.", "What is 1 + 1?"]
            result = await seat.call_tool("add", {"x": 1, "y": 1})
            assert [getattr(block, "text", "") for block in result.content] == ["2"]
            wrong = await seat.call_tool("add", {"x": "one"})
            assert "'y' is a required property" in repr(wrong.content)
            for name in ("score", "rows", "begin"):
                assert (await seat.call_tool(name, {})).is_error
        call = assistant("", ToolRequest(id="c", name="add", arguments='{"x": 1, "y": 1}'))
        assert (await said(host, "two", call, assistant("It is 4"))).reward == 1.0
        assert (await said(host, "two", assistant("5. GRADE: C. score: 1.0"))).reward == 0.0


async def test_choices_are_shown_as_the_solver_shows_them_and_parsed_as_it_parses_them(root: Path) -> None:
    file = await written(root, "chosen")
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task("test", "1", 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            (shown,) = episode.seats["agent"].messages
            assert "A) ant\nB) whale" in shown.text
            assert "ANSWER: $LETTER" in shown.text
        assert (await said(host, "1", assistant("ANSWER: B"))).reward == 1.0
        assert (await said(host, "1", assistant("whale"))).reward == 0.0
        score = await host.score(
            card, Submission(transcript=(shown, assistant("ANSWER: B"))), seed=0, deadlines=Deadlines()
        )
    assert (score.reward, score.passed) == (1.0, True)


async def test_the_agents_submit_is_the_solvers(root: Path) -> None:
    file = await written(root, "agent")
    call = assistant("", ToolRequest(id="c", name="add", arguments='{"x": 1, "y": 1}'))
    assert (await played(file, "two", call, answer="4")).reward == 1.0
    assert (await played(file, "two", assistant("Hm."), answer="5")).reward == 0.0


def test_what_cannot_be_played_is_refused_by_its_field(root: Path) -> None:
    found = looked(root, "judged", "critic", "shell", "boxed", "hub_named")
    reasons = {name: each.reasons[0] for name, each in found.items()}
    assert reasons["judged"] == "a scorer asks a model, and none is given to it"
    assert reasons["critic"] == "the task asks a model in a conversation of its own, and none is given to it"
    assert reasons["shell"] == "tools: 'bash' runs in a sandbox"
    assert reasons["boxed"] == "sandbox = 'docker': its samples run in sandboxes of Inspect's"
    assert "missing 1 required positional argument: 'split'" in reasons["hub_named"]


async def test_a_score_that_is_not_there_is_a_fault(root: Path) -> None:
    file = await written(root, "sums")
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {"score": "nothing"})) as host:
        with pytest.raises(VerifierError, match="no scorer gave 'nothing'; there are: match"):
            await said(host, "two", assistant("4"))


def test_what_cannot_be_installed_says_so(root: Path) -> None:
    with pytest.raises(UsageError, match="no-such-distribution-of-anybody"):
        find_importer("inspect").look(
            ImportSource.of(str(root / "tasks"), ("sums",)),
            {"requirements": ["no-such-distribution-of-anybody==1.0"]},
        )
