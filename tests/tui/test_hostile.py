"""Whatever a run holds, screens stay whole: each line as wide as the screen, no control character, nothing injected."""

import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pyte
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mcp_types import CallToolResult, ImageContent, TextContent
from rich.cells import cell_len

from rollouthub import Message, Outcome, Rollout, Score, ToolCall, ToolRequest, Turn
from rollouthub.bench.real_runs import HUB, world
from rollouthub.messages import Media, Text
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, TaskRef
from rollouthub.score import Artifact, Component, ModelCall, VerifierRef
from rollouthub.store import open_writer
from rollouthub_tui.bench.terminal import Terminal
from tests.store.records import record
from tests.tui.episodes import digest_of
from tests.tui.made import hostile_run
from tests.tui.walking import Walker, app_of, run_of, settled, strips, walking

_PIECES = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;owned\x07",
    "\x1b]8;;https://evil.test\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x1b[2J\x1b[H\x1b[?1049l\x1bc",
    "\x9b31m\x9d0;owned\x9c\x90q\x9c",
    "\x1b_Gf=100;AAAA\x1b\\",
    "\x00\x01\x07\x08\x0b\x0c\x0e\x7f\x85",
    "\r\noverwritten\r",
    "\t\t",
    "[bold red]markup[/bold red][/]",
    "[@click=app.quit]click[/]",
    "[link=https://evil.test]link[/link]",
    "[[[]]][/x][$error]",
    "\u202egnp.exe\u202c\u2066x\u2069\u200f\u061c",
    "\u200b\u200d\u2060\ufeff\u00ad",
    "e" + "\u0301" * 40,
    "注文🚲👩‍👩‍👧‍👦🇩🇪\ufe0f",
    "\u0e33\u0bbe\u1160\u115f\u3164",
    "\ud800\udfff",
    "\U000e0041\U0010ffff\ufffe",
    "```python\nprint('x'\n",
    "| a | b |\n|---|\n",
    "<script>alert(1)</script>",
    "%s %d {0} {x} ${HOME}",
)
rude = st.lists(st.sampled_from(_PIECES) | st.text(max_size=12), min_size=1, max_size=6).map("".join)
huge = st.sampled_from([100, 5_000, 70_000]).flatmap(lambda length: rude.map(lambda text: (text * length)[:length]))
picture = st.binary(max_size=40) | st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a\xff\xff\xff\xff", b"\xff\xd8\xff"])


@dataclass(frozen=True)
class Said:
    """What is rude about a run."""

    words: list[str]
    endless: str
    picture: bytes

    def rollouts(self) -> list[Rollout]:
        """Three samples of one task in which everybody says all of it, one of them broken."""
        said = [*self.words, self.endless]
        return [_rude(sample, said[sample:] + said[:sample], digest_of(self.picture)) for sample in range(3)]


runs = st.builds(Said, words=st.lists(rude, min_size=6, max_size=6), endless=huge, picture=picture)


def _rude(sample: int, said: list[str], digest: str) -> Rollout:
    shown = ImageContent(data=digest, mime_type=said[1])
    call = ToolCall(
        id=said[0],
        name=said[1],
        arguments={said[2]: [said[3], {said[4]: said[5]}]},
        result=CallToolResult(content=[TextContent(text=said[6]), shown], is_error=sample == 1),
        started=0.0,
        seconds=0.1,
        bytes=1,
    )
    asked = Message(role="user", content=(Text(text=said[2]), Media(digest=digest, mime_type="image/png")))
    request = ToolRequest(id=said[0], name=said[1], arguments=said[5])
    reply = Message(role="assistant", content=said[3], reasoning=said[4], tool_requests=(request,))
    turn = Turn(index=0, agent=said[5], messages=(asked,), response=reply, tool_calls=(call,), model=said[0])
    last = Turn(index=1, parent_turn=0, messages=(), response=Message(role="assistant", content=said[6]))
    judged = ModelCall(model=said[0], messages=(asked,), response=reply, error=said[1])
    score = Score(
        reward=0.5,
        passed=sample == 0,
        components={said[0]: Component(value=0.5)},
        metrics={said[1]: 1.0},
        feedback=said[6],
        verifier=VerifierRef(name=said[2], version=said[3], digest=said[4]),
        judge_calls=(judged,),
        metadata={said[2]: said[3]},
    )
    outcome = Outcome.SCORED if sample < 2 else Outcome.VERIFIER_FAILED
    more: dict[str, Any] = {"score": score} if sample < 2 else {}
    return record(
        f"g-{sample}",
        0,
        outcome,
        turns=(turn, last),
        rollout_id=f"{said[0]}-{sample}",
        group_id=said[0],
        environment=EnvironmentRef(name=said[1], version=said[2], digest=said[3]),
        task=TaskRef(split=said[4], id=said[5], digest=said[6], source=said[0]),
        agent=AgentRef(name=said[2], version=said[3], config={said[4]: said[5]}),
        model=said[6],
        answer=said[0],
        faults=() if sample < 2 else (Fault(boundary="verifier", phase="verify", type=said[1], message=said[6]),),
        artifacts=(Artifact(name=said[3], digest=digest, bytes=1),),
        **more,
    )


async def write(directory: Path, said: Said) -> None:
    """A run that holds it, of a request that is as rude, but for what no file can hold."""
    words = said.words[2].encode(errors="replace").decode()
    request: dict[str, Any] = {"environments": [words], "agent": words, "model": words, "seed": words}
    async with open_writer(directory, resolved={"request": request}, given="", resume=False) as writer:
        writer.set_stopped(words)
        for rollout in said.rollouts():
            await writer.add(rollout, {digest_of(said.picture): said.picture})


def check(pilot: Walker, where: str) -> None:
    """Every line is exactly as wide as the screen; there is nothing in it but characters and our own styles."""
    width = pilot.app.size.width
    for number, strip in enumerate(strips(pilot)):
        assert strip.cell_length == width, f"{where}: line {number} has {strip.cell_length} cells: {strip.text!r}"
        assert cell_len(strip.text) == width, f"{where}: line {number} fills {cell_len(strip.text)} cells"
        for segment in strip:
            assert segment.control is None, f"{where}: {segment!r}"
            bad = [char for char in segment.text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
            assert not bad, f"{where}: line {number} holds {bad!r}"
            turned = set(segment.text) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u061c\u200e\u200f")
            assert not turned, f"{where}: line {number} holds {turned!r}"
            if segment.style is not None:
                assert segment.style.link is None, f"{where}: a link in line {number}"
                assert "evil" not in str(segment.style.meta) and "app.quit" not in str(segment.style.meta), where


async def walk(pilot: Walker, *keys: str) -> None:
    """Press keys one by one, and look at the screen after each."""
    path = ""
    for key in keys:
        path += f" {key}"
        await pilot.press(key)
        await settled(pilot)
        check(pilot, path)


RUN = ("enter", "1", "2", "s", "j", "e", "e", "3", "4", "2")
ROLLOUT = ("enter", "z", "J", "2", "3", "4", "5", "1", "G", "escape")


async def walk_all(said: Said) -> None:
    """See every screen of a run of these."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await write(folder / "runs" / "run", said)
        async with walking(folder, roots=(folder / "runs",)) as pilot:
            check(pilot, "runs")
            await walk(pilot, *RUN, *ROLLOUT)
            app, run = app_of(pilot), run_of(pilot)
            app.open_pair(run, 0, 1)
            await walk(pilot, "n", "escape")
            app.open_comparison(run.directory, run.directory)
            await walk(pilot, "s", "escape")


@settings(max_examples=2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(said=runs)
async def test_every_screen_of_a_rude_run_stays_whole(said: Said) -> None:
    await walk_all(said)


@pytest.mark.soak
@settings(max_examples=60)
@given(said=runs)
async def test_every_screen_of_many_rude_runs_stays_whole(said: Said) -> None:
    await walk_all(said)


DRIVES = (b"\x1b]0;", b"\x1b]2;", b"\x1b]52", b"\x1b]8;", b"\x1bc", b"\x1b[?1049l", b"\x1b_Gf", b"\x07", b"\xc2\x9b")
"""What would change a title, the clipboard, make a link, reset, leave the screen, draw, or ring."""


def test_a_real_terminal_is_not_driven_by_what_a_run_holds(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run"
    anyio.run(hostile_run, run)
    with Terminal([*HUB, "watch", str(run)], tmp_path, world(tmp_path), size=(100, 30)) as terminal:
        assert terminal.wait_for("overview", 90) is not None, terminal.words()
        for key in ("2", "j", "\r", "z", "G", "2", "5", "\x1b", "3", "\x1b"):
            terminal.press(key)
            terminal.painted_after(terminal.started, 0.5)
            terminal.settle()
        end = time.monotonic() + 60
        while True:  # a screen may be half painted
            seen = bytes(terminal.output).replace(b"\x1b]22;default\x07", b"")  # Textual's own: the pointer's form
            emulator = pyte.Screen(100, 30)
            pyte.ByteStream(emulator).feed(seen)
            if any("run" in line for line in emulator.display) or time.monotonic() > end:
                break
            terminal.pump(0.1)
        assert terminal.is_running
    assert [drive for drive in DRIVES if drive in seen] == []
    assert emulator.title == emulator.icon_name == ""
    assert any("run" in line for line in emulator.display)
