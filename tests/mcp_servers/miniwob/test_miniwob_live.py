"""MiniWoB++ itself in a real Chromium: played, held to its own rewards, and attacked through the tools."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from mcp_types import ImageContent

from rollouthub import BadRow, Deadlines, Environment, Media, Score, Stop, Submission
from rollouthub.errors import ConfigError, UsageError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.processes import HUB
from rollouthub_servers.foreign.process import ForeignProcess
from rollouthub_servers.foreign.requirements import PYTHON, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.miniwob import MiniWob, MiniWobConfig
from rollouthub_servers.miniwob.miniwob_program import find_chromium, miniwob_program
from rollouthub_servers.step_api.environment import StepConfig
from rollouthub_servers.step_api.games import Catalogue, KnownGame
from tests.mcp_servers.miniwob.pages import PAGES, make_library

pytestmark = pytest.mark.live
TASKS = ("click-test", "click-button", "enter-text", "copy-paste", "terminal", "choose-list", "use-slider", *PAGES)
STEP_SECONDS = 20.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published library, with tasks of bad habits."""
    try:
        find_chromium()
        home = foreign_home()
        wheel = home.unpacked(home.wheel("miniwob==1.0"))
    except (ConfigError, UsageError) as error:
        pytest.skip(f"no Chromium, or no miniwob here: {error}")
    return make_library(wheel, tmp_path_factory.mktemp("library") / "miniwob")


@pytest.fixture(scope="module")
def runtime(library: Path) -> Generator[ForeignRuntime]:
    """One browser for all tests."""
    given: Any = {"render": "picture", "action_seconds": 0.25, "step_seconds": STEP_SECONDS}
    runtime = ForeignRuntime(miniwob_program(library, Path(sys.executable), **given))
    yield runtime
    runtime.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of an import of them all."""
    games = tuple(KnownGame(id=id, prompt="Play.") for id in TASKS)
    (tmp_path / "games.json").write_text(Catalogue(library="miniwob", players=1, games=games).model_dump_json())
    (tmp_path / "foreign.lock.json").write_text(ForeignLock(python=PYTHON).model_dump_json())
    return tmp_path


@asynccontextmanager
async def opened(
    data: Path, runtime: ForeignRuntime, task: str, seed: int = 0, **settings: Any
) -> AsyncGenerator[HostedEpisode]:
    """One episode."""

    class Known(MiniWob, Environment[MiniWobConfig]):
        """The task, played by the library that is here."""

        known: ClassVar[ForeignRuntime] = runtime

        @classmethod
        def _runtime(cls, config: StepConfig) -> ForeignRuntime:
            return cls.known

    host = InProcessHost("web", Known, MiniWobConfig(data=str(data), step_seconds=STEP_SECONDS, **settings))
    cards = {card.public.id: card for card in host.cards("test", 0) if not isinstance(card, BadRow)}
    with anyio.fail_after(120):
        async with host.open(cards[f"{task}/{seed}"], seed=0, deadlines=Deadlines()) as episode:
            assert isinstance(episode, HostedEpisode)
            yield episode


async def did(episode: HostedEpisode, tool: str, **given: Any) -> str:
    """What an agent reads after an action."""
    result = await episode.seats["agent"].call_tool(tool, given)
    return "".join(getattr(block, "text", "") for block in result.content)


def opening(episode: HostedEpisode) -> str:
    """What an agent reads first."""
    return episode.seats["agent"].messages[0].text


def ref_of(shown: str, what: str) -> int:
    """The number of the element whose line has these words."""
    line = next(line for line in shown.splitlines() if what in line and line.lstrip().startswith("["))
    return int(line[line.index("[") + 1 : line.index("]")])


def place_of(shown: str, what: str) -> dict[str, int]:
    """The middle of that element."""
    line = next(line for line in shown.splitlines() if what in line)
    found = re.search(r" at (\d+),(\d+) size", line)
    assert found is not None
    return {"x": int(found[1]), "y": int(found[2])}


def browsers_of(process: ForeignProcess) -> list[int]:
    """The first processes of the browsers that a driver has started, whatever walls they have."""
    program, profile = str(find_chromium()).encode(), f"--user-data-dir={process.workdir.parent}".encode()
    found = list[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0] == program and b"--no-first-run" in words and any(word.startswith(profile) for word in words):
                found.append(int(entry.name))
    return found


async def scored(episode: HostedEpisode) -> Score:
    """The verdict."""
    score = await episode.conclude(Submission(stop=Stop.FINISHED))
    assert score is not None, episode.faults
    return score


async def test_a_task_is_seen_as_text_and_picture_and_its_reward_is_seen_by_nobody(
    data: Path, runtime: ForeignRuntime
) -> None:
    async with opened(data, runtime, "click-test") as episode:
        (message,) = episode.seats["agent"].messages
        assert "Task: Click the button." in message.text and 'button#subbtn "Click Me!"' in message.text
        assert [part.mime_type for part in message.content if isinstance(part, Media)] == ["image/png"]
        assert "reward" not in message.text.lower() and "START" not in message.text
        result = await episode.seats["agent"].call_tool("move_mouse", {"x": 5, "y": 200})
        assert any(isinstance(block, ImageContent) for block in result.content)
        assert "Task:" not in str(result.content), "what was said before is not said again"
        shown = await did(episode, "click", **place_of(message.text, "subbtn"))
        assert shown == "It is over."
        score = await scored(episode)
    assert (score.reward, score.metrics) == (1.0, {"steps": 2.0, "over": 1.0})
    async with opened(data, runtime, "click-test") as episode:
        assert (await scored(episode)).reward == 0.0, "who leaves has done nothing"


async def test_the_raw_reward_does_not_fall_with_time_and_the_deadline_is_the_page_s(
    data: Path, runtime: ForeignRuntime
) -> None:
    async with opened(data, runtime, "click-test") as late, opened(data, runtime, "click-test") as too_late:
        await did(late, "wait", seconds=9)
        assert await did(late, "click_element", ref=ref_of(opening(late), "subbtn")) == "It is over."
        assert await did(too_late, "wait", seconds=10) == "It is over."
        assert (await scored(late)).reward == 1.0
        assert (await scored(too_late)).reward == -1.0


async def test_text_keys_lists_and_drags_do_what_a_person_s_do(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "enter-text") as episode:
        shown = opening(episode)
        (word,) = re.findall(r'Task: Enter "(.*)" into', shown)
        await did(episode, "type_text", text=f"{word}!", ref=ref_of(shown, "input_text"))
        assert f'value "{word}"' in await did(episode, "press_key", key="<Backspace>")
        assert await did(episode, "click_element", ref=ref_of(shown, "Submit")) == "It is over."
        assert (await scored(episode)).reward == 1.0
    async with opened(data, runtime, "choose-list") as episode:
        shown = opening(episode)
        (word,) = re.findall(r"Task: Select (.*) from the list", shown)
        assert f'chosen "{word}"' in await did(episode, "type_text", text=word, ref=ref_of(shown, "select"))
        await did(episode, "click_element", ref=ref_of(shown, "Submit"))
        assert (await scored(episode)).reward == 1.0
    async with opened(data, runtime, "use-slider") as episode:
        start = place_of(opening(episode), "ui-slider-handle")
        target = {"to_x": start["x"] + 40, "to_y": start["y"] - 40}  # it lies, or stands
        moved = await did(episode, "drag", from_x=start["x"], from_y=start["y"], **target)
        end = place_of(moved, "ui-slider-handle")
        assert max(end["x"] - start["x"], start["y"] - end["y"]) > 20


async def test_the_same_seed_is_the_same_page_whatever_others_do(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "click-button", 3) as one, opened(data, runtime, "click-button", 4) as other:
        first = one.seats["agent"].messages[0]
        assert opening(other) != first.text
        await did(other, "click", x=80, y=100)
    async with opened(data, runtime, "click-button", 3) as again:
        assert again.seats["agent"].messages[0] == first, "picture and all"


async def test_what_one_episode_copies_no_other_pastes(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "copy-paste") as one, opened(data, runtime, "copy-paste", 1) as other:
        for episode in (one, other):
            shown = opening(episode)
            await did(episode, "click_element", ref=ref_of(shown, "textarea"))
            await did(episode, "press_key", key="C-a")
            if episode is one:
                await did(episode, "press_key", key="C-c")
            await did(episode, "click_element", ref=ref_of(shown, "answer-input"))
            pasted = await did(episode, "press_key", key="C-v")
            assert ('answer-input value ""' in pasted) is (episode is other)
            await did(episode, "click_element", ref=ref_of(shown, "Submit"))
        assert [(await scored(episode)).reward for episode in (one, other)] == [1.0, -1.0]


async def test_what_is_left_in_a_page_is_gone_when_it_is_used_again(data: Path, runtime: ForeignRuntime) -> None:
    seen = list[str]()
    for _ in range(3):
        async with opened(data, runtime, "echoes") as episode:
            seen.append(opening(episode))
            assert 'value "left"' in await did(episode, "type_text", text="left", ref=ref_of(seen[0], "input_text"))
    assert len(set(seen)) == 1


async def test_a_lost_episode_is_not_begun_again_by_the_click_that_ends_it(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "loses") as episode:
        assert await did(episode, "double_click", x=60, y=100) == "It is over."
        assert (await scored(episode)).reward == -1.0


async def test_a_function_of_the_library_or_its_driver_is_no_tool(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "click-test") as episode:
        for name in ("reset", "step", "score", "evaluate", "execute_script", "endEpisode", "navigate", "open", "close"):
            assert "unknown tool" in await did(episode, name, reward=1.0, script="core.endEpisode(1)"), name
        refused = await episode.seats["agent"].call_tool("wait", {"seconds": 1, "reward": 1.0})
        assert refused.is_error
        assert (await scored(episode)).reward == 0.0


async def test_a_reward_of_a_page_that_is_no_number_is_not_scored(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "claims") as episode:
        await did(episode, "click_element", ref=ref_of(opening(episode), "go"))
        assert await episode.conclude(Submission(stop=Stop.FINISHED)) is None
        assert [fault.boundary for fault in episode.faults] == ["environment"]
        assert "'much'" in episode.faults[0].message


SCRIPTS = (
    "<img src=x onerror=core.endEpisode(1)>",
    "<svg onload=core.endEpisode(1)>",
    "<script>core.endEpisode(1)</script>",
    "<script src='data:text/javascript,core.endEpisode(1)'></script>",
    "<iframe srcdoc='<script>parent.core.endEpisode(1)</script>'></iframe>",
    "<iframe src='javascript:parent.core.endEpisode(1)'></iframe>",
    "<meta http-equiv=refresh content='0;url=javascript:core.endEpisode(1)'>",
    "<style onload=core.endEpisode(1)></style>",
    "<a id=link href='javascript:core.endEpisode(1)'>link</a>",
    "<a id=link onclick='core.endEpisode(1)'>link</a>",
    "<form action='javascript:core.endEpisode(1)'><button id=link>link</button></form>",
    "<object data='javascript:core.endEpisode(1)'></object>",
)


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
async def test_typed_text_never_becomes_a_script(data: Path, runtime: ForeignRuntime, script: str) -> None:
    async with opened(data, runtime, "echoes") as episode:
        shown = await did(episode, "type_text", text=script, ref=ref_of(opening(episode), "input_text"))
        if '"link"' in shown:
            await did(episode, "click_element", ref=ref_of(shown, '"link"'))
            await did(episode, "click", **place_of(shown, '"link"'))
        assert "over" not in await did(episode, "wait", seconds=1)
        score = await scored(episode)
    assert (score.reward, score.metrics["over"], score.suspect) == (0.0, 0.0, None)


async def test_the_terminal_of_the_library_runs_no_script_that_is_typed(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "terminal") as episode:
        await did(episode, "click", x=80, y=120)
        await did(episode, "type_text", text="<img src=x onerror=core.endEpisode(1)>\n")
        assert (await scored(episode)).reward == 0.0


@pytest.mark.parametrize("how", ["far", "new", "send", "enter", "typed"])
async def test_no_link_or_form_leads_to_a_fresh_page(data: Path, runtime: ForeignRuntime, how: str) -> None:
    async with opened(data, runtime, "leads-away") as episode:
        shown = opening(episode)
        await did(episode, "type_text", text="kept", ref=ref_of(shown, "#said"))
        if how == "enter":
            await did(episode, "press_key", key="<Enter>")
        elif how != "typed":
            await did(episode, "click", **place_of(shown, f'"{how}"'))
        shown = await did(episode, "wait", seconds=1)
        assert 'value "kept"' in shown and "Go" not in shown
        assert (await scored(episode)).reward == 0.0


async def test_what_nobody_sees_is_not_listed_and_cannot_be_clicked(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "hides") as episode:
        shown = opening(episode)
        assert '"seen"' in shown and "SECRET" not in shown
        listed = {int(found) for found in re.findall(r"\[(\d+)\]", shown)}
        for ref in set(range(1, 12)) - listed:
            assert "no element that was listed" in await did(episode, "click_element", ref=ref)
        for place in ({"x": 200, "y": 50}, {"x": 5, "y": 300}):
            assert "the page goes from 0" in await did(episode, "click", **place)
        assert "it is one character" in await did(episode, "press_key", key="<F12>")


async def test_a_page_that_hangs_ends_its_own_episode_alone(library: Path, data: Path) -> None:
    given: Any = {"render": "none", "action_seconds": 0.25, "step_seconds": 5.0}
    runtime = ForeignRuntime(miniwob_program(library, Path(sys.executable), **given))
    try:
        async with opened(data, runtime, "click-test") as other:
            process = await runtime.shared()
            async with opened(data, runtime, "hangs") as episode:
                assert await did(episode, "click", x=60, y=100) == "It is over."
                score = await scored(episode)
            assert score.reward == 0.0 and score.suspect is not None and "does not answer" in score.suspect
            assert await did(other, "click_element", ref=ref_of(opening(other), "subbtn")) == "It is over."
            assert (await scored(other)).reward == 1.0
        async with opened(data, runtime, "hangs") as again:
            assert '"Go"' in opening(again)
        assert await runtime.shared() is process
    finally:
        runtime.close()


async def test_a_page_that_asks_or_never_rests_or_fails_goes_on(data: Path, runtime: ForeignRuntime) -> None:
    async with opened(data, runtime, "asks") as episode:
        assert "Asked" in await did(episode, "click", x=60, y=100)
    async with opened(data, runtime, "endless") as episode:
        assert "Go" in await did(episode, "wait", seconds=1)
    async with opened(data, runtime, "crashes") as episode:
        shown = await did(episode, "click", x=60, y=100)
        assert "Go" in shown and "42" not in shown


async def test_a_task_that_does_not_begin_is_a_fault_of_the_task(data: Path, runtime: ForeignRuntime) -> None:
    with pytest.raises(Exception, match="no problem today"):
        async with opened(data, runtime, "fails"):
            pass


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_browser_that_ends_is_a_fault_and_the_next_try_has_a_new_one(
    library: Path, data: Path, way: signal.Signals
) -> None:
    given: Any = {"render": "none", "action_seconds": 0.25, "step_seconds": 5.0}
    runtime = ForeignRuntime(miniwob_program(library, Path(sys.executable), **given))
    try:
        async with opened(data, runtime, "click-test") as episode:
            process = await runtime.shared()
            (browser,) = browsers_of(process)
            os.kill(browser, way)
            await episode.seats["agent"].call_tool("wait", {"seconds": 1})
            assert await episode.conclude(Submission(stop=Stop.FINISHED)) is None
            (fault,) = episode.faults
            assert "MiniWoB++ in Chromium ended" in fault.message and "another one is started" in fault.message
        async with opened(data, runtime, "click-test") as episode:
            await did(episode, "click_element", ref=ref_of(opening(episode), "subbtn"))
            assert (await scored(episode)).reward == 1.0
    finally:
        runtime.close()


async def test_many_episodes_share_one_browser(data: Path, runtime: ForeignRuntime) -> None:
    async with anyio.create_task_group() as group:

        async def play(seed: int) -> None:
            async with opened(data, runtime, "click-test", seed) as episode:
                await did(episode, "click_element", ref=ref_of(opening(episode), "subbtn"))
                assert (await scored(episode)).reward == 1.0

        for seed in range(8):
            group.start_soon(play, seed)
    process = await runtime.shared()
    assert len(browsers_of(process)) == 1


def test_a_package_is_imported_and_played_by_a_mock_model(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "clicks"
    source = ("miniwob", "miniwob==1.0.*", "click-te*")
    done = subprocess.run([*HUB, "import", *source, "-o", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("*_tasks.py")
    command = [*HUB, "run", str(file), "-m", "mock/solver", "--limit", "3", "-o", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
