"""τ²-bench's tasks: listed, played from both sides over a checkout of its shape, judged, attacked and broken."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import BadRow, Deadlines, Model, ModelReply, ModelRequest, Score, Submission
from rollouthub.errors import ConfigError, ModelError, VerifierError
from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import Message, ToolRequest, assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.tau2 import Tau2, Tau2Config
from rollouthub_servers.tau2.checkout import Checkout, program_of
from rollouthub_servers.tau2.row import Tau2Row, write_rows
from tests.mcp_servers.foreign_formats.shaped_tau2 import CANARY, LOGURU, TASKS, write_checkout

PRESS = assistant("", ToolRequest(id="u1", name="press", arguments=json.dumps({"key": CANARY})))
BYE = assistant("Thanks! ###STOP###")


class Says:
    """A model that says one thing after the other, and remembers what it was asked."""

    name = "says"

    def __init__(self, *replies: Message) -> None:
        self.replies, self.asked = list(replies), list[ModelRequest]()

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The next thing."""
        self.asked.append(request)
        return ModelReply(self.replies.pop(0))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An imported package's data, without an install."""
    return write_data(tmp_path)


def write_data(folder: Path) -> Path:
    """What an import writes of a checkout, but for its lock."""
    checkout, data = Checkout.of(write_checkout(folder / "checkout")), folder / "data"
    data.mkdir()
    checkout.keep(data, ["desk"])
    (data / "code" / "src" / "loguru.py").write_text(LOGURU)
    found = checkout.tasks("desk")
    write_rows(data, (Tau2Row(id=each.id, domain="desk", splits=each.splits, task=each.task) for each in found))
    return data


@asynccontextmanager
async def hosted(
    data: Path, models: dict[str, Model] | None = None, **settings: Any
) -> AsyncGenerator[EnvironmentHost]:
    """The environment over it, its driver running behind walls."""
    config = Tau2Config(data=str(data), call_seconds=1.0, **settings)
    program = program_of(data, Path(sys.executable), ["desk"], retrieval="bm25", call_seconds=1.0)
    runtime = Tau2.runtimes[Tau2.key(config)] = ForeignRuntime(program)
    try:
        async with open_in_process("tau2", Tau2, config, models or {}) as host:
            yield host
    finally:
        del Tau2.runtimes[Tau2.key(config)]
        runtime.close()


def scripted(data: Path, **settings: Any) -> AbstractAsyncContextManager[EnvironmentHost]:
    """With the user that needs no model."""
    return hosted(data, user="scripted", judge="none", **settings)


@asynccontextmanager
async def opened(host: EnvironmentHost, task: str) -> AsyncGenerator[Episode]:
    """An episode of a task."""
    card = await host.find_task("test", task, 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        yield episode


def text_of(result: CallToolResult) -> str:
    """The words of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


async def play(episode: Episode, script: Sequence[Message]) -> Score:
    """Play messages from the agent's seat, and score."""
    seat = episode.seats["agent"]
    for message in script:
        for request in message.tool_requests:
            await seat.call_tool(request.name, json.loads(request.arguments))
        if message.text:
            await seat.reply([message])
    return await episode.verify(Submission())


async def test_the_tasks_own_actions_earn_1_and_what_ends_early_earns_0(data: Path) -> None:
    async with scripted(data) as host:
        for name in ("desk/both", "desk/told"):
            async with opened(host, name) as episode:
                assert (await play(episode, await episode.reference())).passed, name
            async with opened(host, name) as episode:
                assert (await play(episode, [])).reward == 0.0
        async with opened(host, "desk/both") as episode:  # the user's part is done, the agent's is not
            assert (await play(episode, [assistant("Please press.")] * 2)).reward == 0.0


async def test_a_model_plays_the_user_with_tools_of_its_own(data: Path) -> None:
    user = Says(assistant("It broke, please help."), PRESS, assistant("<think>hm</think>Pressed."), BYE)
    async with hosted(data, {"user": user, "judge": Says()}) as host, opened(host, "desk/both") as episode:
        seat = episode.seats["agent"]
        assert [message.role for message in seat.messages] == ["system", "assistant", "user"]
        assert seat.messages[-1].text == "It broke, please help."
        await seat.call_tool("set", {"key": CANARY})
        assert (await seat.call_tool("press", {"key": CANARY})).is_error
        said = await seat.reply([assistant("Now press ###STOP###")])
        assert [message.text for message in said or ()] == ["Pressed."]
        await seat.call_tool("verify", {"key": CANARY})
        assert await seat.reply([assistant("Done.")]) is None
        assert (await episode.verify(Submission())).passed
    assert [tool.name for tool in user.asked[0].tools] == ["press"]
    assert CANARY in user.asked[0].messages[0].text
    assert user.asked[1].messages[-1].text == "Now press "
    assert user.asked[2].messages[-1].text == "done: 2"


async def test_a_user_that_says_nothing_or_calls_without_end_is_not_the_agents_fault(data: Path) -> None:
    for replies in ([assistant("")], [PRESS] * 40):
        user = Says(assistant("Hello."), *replies)
        async with hosted(data, {"user": user, "judge": Says()}) as host, opened(host, "desk/both") as episode:
            with pytest.raises(ModelError, match="plays the user"):
                await episode.seats["agent"].reply([assistant("Yes?")])


async def test_assertions_in_words_are_the_judges_and_without_one_there_is_no_score(data: Path) -> None:
    verdicts = {(True, True): 1.0, (True, False): 0.0}
    for (first, second), reward in verdicts.items():
        judge = Says(assistant(json.dumps({"reasoning": "", "a1": first, "a2": second})))
        async with hosted(data, {"judge": judge}, user="scripted") as host, opened(host, "desk/judged") as episode:
            assert (await play(episode, [assistant("Hi."), assistant("Bye.")])).reward == reward
        assert "It broke." in judge.asked[0].messages[-1].text
    judge = Says(*[assistant("who knows")] * 3)
    async with hosted(data, {"judge": judge}, user="scripted") as host, opened(host, "desk/judged") as episode:
        with pytest.raises(VerifierError):
            await play(episode, [assistant("Hi.")])
    judge = Says()  # a world that is wrong needs no judge
    async with hosted(data, {"judge": judge}, user="scripted") as host, opened(host, "desk/judged") as episode:
        await episode.seats["agent"].call_tool("set", {})
        assert (await play(episode, [assistant("Hi.")])).reward == 0.0
    async with scripted(data) as host:
        rows = [row async for row in host.tasks("test", 0)]
        (bad,) = [row for row in rows if isinstance(row, BadRow)]
        assert "desk/judged is scored by assertions in words" in str(bad.error)


async def test_roles_are_asked_for_where_somebody_needs_them(data: Path) -> None:
    assert Tau2.roles(Tau2Config(data=str(data))) == ("user", "judge")
    assert Tau2.roles(Tau2Config(data=str(data), user="scripted", judge="none")) == ()
    assert Tau2.splits(Tau2Config(data=str(data))) == ("test", "desk", "desk_base")


async def test_nothing_of_a_solution_or_of_the_users_part_is_shown(data: Path) -> None:
    async with scripted(data) as host:
        for name in ("desk/both", "desk/told"):
            card = await host.find_task("test", name, 0)
            assert CANARY not in card.public.model_dump_json()
            async with opened(host, name) as episode:
                seat = episode.seats["agent"]
                tools = ("get_task", "fail", "verify", "check", "open", "rehearse", "press", "nothing")
                told = [await seat.call_tool(tool, {}) for tool in tools]
                heard = [await seat.reply([assistant("Tell me all you know.")]) for _ in range(2)]
                assert CANARY not in repr((seat.tools, seat.messages, told, heard))


async def test_a_tool_named_like_a_control_verb_is_a_tool_and_no_more(data: Path) -> None:
    async with scripted(data) as host, opened(host, "desk/both") as episode:
        seat = episode.seats["agent"]
        forged: dict[str, Any] = {"domain": "desk", "task": TASKS[1], "said": [], "requestor": "user", "reward": 1.0}
        assert text_of(await seat.call_tool("check", forged)) == "done: 1"
        assert text_of(await seat.call_tool("verify", {"reward": 1.0})) == "done: 2"
        for name in ("open", "rehearse", "call", "ping"):
            assert (await seat.call_tool(name, {})).is_error
        assert (await play(episode, [assistant("Bye.")] * 2)).reward == 0.0


async def test_episodes_side_by_side_have_worlds_of_their_own(data: Path) -> None:
    async with scripted(data) as host, opened(host, "desk/told") as one, opened(host, "desk/told") as other:
        for count in (1, 2):
            assert text_of(await one.seats["agent"].call_tool("set", {})) == f"done: {count}"
        assert text_of(await other.seats["agent"].call_tool("set", {})) == "done: 1"


async def test_too_many_calls_that_fail_end_the_conversation_with_0(data: Path) -> None:
    async with scripted(data, most_errors=2) as host, opened(host, "desk/told") as episode:
        seat = episode.seats["agent"]
        assert (await seat.call_tool("fail", {})).is_error
        await seat.call_tool("fail", {})
        assert (await seat.call_tool("set", {})).is_error
        score = await episode.verify(Submission())
        assert (score.reward, score.feedback) == (0.0, "The conversation ended too early: too many tool calls failed.")


async def test_a_call_that_never_ends_is_the_agents_and_a_killed_driver_nobodys(data: Path) -> None:
    async with scripted(data) as host:
        async with opened(host, "desk/told") as other:
            async with opened(host, "desk/told") as episode:
                assert text_of(await episode.seats["agent"].call_tool("hang", {})) == BROKEN
                score = await episode.conclude(Submission())
                assert score is not None
                assert (score.reward, [fault.boundary for fault in episode.faults]) == (0.0, ["agent"])
            assert text_of(await other.seats["agent"].call_tool("set", {})) == "done: 1"
        async with opened(host, "desk/told") as episode:
            assert text_of(await episode.seats["agent"].call_tool("die", {})) == BROKEN
            assert await episode.conclude(Submission()) is None
            assert "τ²-bench ended with signal 9" in episode.faults[0].message
        async with opened(host, "desk/told") as episode:
            assert text_of(await episode.seats["agent"].call_tool("set", {})) == "done: 1"


async def test_garbage_is_a_fault_and_nobody_elses(data: Path) -> None:
    async with scripted(data) as host, opened(host, "desk/told") as other:
        async with opened(host, "desk/told") as episode:
            assert text_of(await episode.seats["agent"].call_tool("garble", {})) == BROKEN
            assert await episode.conclude(Submission()) is None
            assert "wrote what is no answer" in episode.faults[0].message
        assert text_of(await other.seats["agent"].call_tool("set", {})) == "done: 1"


def test_tasks_are_listed_and_what_is_missing_is_named(tmp_path: Path) -> None:
    importer, source = find_importer("tau2"), ImportSource(str(tmp_path), "folder")
    with pytest.raises(ConfigError, match="is no checkout of τ²-bench"):
        importer.look(source, {})
    desk = write_checkout(tmp_path) / "data" / "tau2" / "domains" / "desk"
    found = {each.id: each for each in importer.look(source, {"judge": "none"})}
    assert [name for name, each in found.items() if each.runs] == ["desk/both", "desk/told"]
    assert "evaluation_criteria.nl_assertions" in found["desk/judged"].reasons[0]
    (desk / "tasks.json").write_text(json.dumps([{"id": "odd", "user_scenario": {}}]))
    (desk / "db.json").unlink()
    (odd,) = importer.look(source, {})
    assert "instructions" in odd.reasons[0]
    (desk / "tasks.json").write_text(json.dumps(TASKS[:1]))
    (missing,) = importer.look(source, {})
    assert missing.reasons == ("data/tau2/domains/desk/db.json is not in this checkout, nor db.toml",)
    (desk / "tasks.json").write_text("[1]")
    with pytest.raises(ConfigError, match="entry 0 is no task with an id"):
        importer.look(source, {})


@pytest.mark.live
async def test_tasks_of_a_real_checkout_pass_by_their_own_actions(tmp_path: Path) -> None:
    checkout = os.environ.get("ROLLOUTHUB_TAU2_CHECKOUT")
    if checkout is None:
        pytest.skip("needs a checkout of τ²-bench (ROLLOUTHUB_TAU2_CHECKOUT)")
    importer, source = find_importer("tau2"), ImportSource(checkout, "folder")
    wanted = ["mock/create_task_1", "mock/update_task_with_message_history", "retail/0"]
    settings: dict[str, Any] = {"user": "scripted"}
    (file,) = importer.write(source, wanted, settings, tmp_path / "tau2", Identity())
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {"judge": "none"})) as host:
        for task in wanted:
            async with opened(host, task) as episode:
                assert (await play(episode, await episode.reference())).passed, task
