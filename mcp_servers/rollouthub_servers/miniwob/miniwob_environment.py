"""`MiniWob`: one task on a web page; the agent sees its elements and a picture, and acts with mouse and keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from mcp_types import Tool
from pydantic import Field

from rollouthub import Environment
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.miniwob.miniwob_program import miniwob_program
from rollouthub_servers.miniwob.page_actions import KEYS, MOST_TYPED
from rollouthub_servers.step_api.environment import TRAIN_SEEDS, StepConfig, StepGame, tool
from rollouthub_servers.step_api.games import Render

PROMPT = (
    "You act on a web page, which is 160 pixels wide and 210 high. Do what its task asks for. Each tool answers with "
    "the page as it is then: its elements, each with its number and its place (the middle of it), and a picture of it. "
    "The page has a time limit, which runs while you act, and not while you think."
)
_NUMBER = {"type": "integer", "description": "Number of an element that was listed last."}
_PLACE = {
    "x": {"type": "number", "description": "Pixels from the left."},
    "y": {"type": "number", "description": "Pixels from the top."},
}
_TEXT = {"type": "string", "maxLength": MOST_TYPED}
_ENDS = {f"{end}_{axis}": _PLACE[axis] for end in ("from", "to") for axis in "xy"}
_TOOLS: tuple[Tool, ...] = (
    tool("click_element", "Click an element, and focus it.", {"ref": _NUMBER}),
    tool("click", "Click a place.", _PLACE),
    tool("double_click", "Click a place twice.", _PLACE),
    tool("move_mouse", "Move the mouse to a place.", _PLACE),
    tool("mouse_down", "Move the mouse to a place and hold its button down.", _PLACE),
    tool("mouse_up", "Move the mouse to a place and let go of its button.", _PLACE),
    tool("drag", "Drag from one place to another.", _ENDS),
    tool(
        "scroll",
        "Turn the mouse's wheel over a place, by 50 pixels.",
        {**_PLACE, "direction": {"type": "string", "enum": ["up", "down"]}},
    ),
    tool("press_key", f"Press a key: a character, or {KEYS}.", {"key": {"type": "string"}}),
    tool(
        "type_text",
        "Type a text; with `ref`, click that element first. In a list to choose from it selects what begins so.",
        {"text": _TEXT, "ref": _NUMBER},
        optional=("ref",),
    ),
    tool("wait", "Let time go by.", {"seconds": {"type": "number", "minimum": 0, "maximum": 60}}),
)


class MiniWobConfig(StepConfig):
    """Settings of the tasks."""

    render: Render = "picture"
    """`picture` shows a screenshot beside the list of elements, `text` or `none` the list alone."""
    action_seconds: float = Field(default=0.25, ge=0, le=60)
    """Seconds that go by on a page with each action; between actions no time passes there, however long they take."""
    browsers: int = Field(default=1, ge=1, le=32)
    """Number of browsers; each plays up to 32 episodes at a time, and further ones wait for one of these to end."""


class MiniWob(StepGame, Environment[MiniWobConfig]):
    """One task of MiniWoB++ from one seed, scored by its raw reward."""

    config: MiniWobConfig  # pyright: ignore[reportIncompatibleVariableOverride]  # the class that it is made with
    _browsers: ClassVar[dict[tuple[object, ...], ForeignRuntime]] = {}

    @classmethod
    def _runtime(cls, config: StepConfig) -> ForeignRuntime:
        assert isinstance(config, MiniWobConfig)
        key = (config.data, config.render, config.action_seconds, config.step_seconds, config.browsers)
        if key not in MiniWob._browsers:
            lock = ForeignLock.read(Path(config.data) / LOCK_FILE)
            home = foreign_home()
            assert lock.wheel is not None, "an import writes it"
            program = miniwob_program(
                home.unpacked(lock.wheel) / "miniwob",
                home.python(lock.dependencies),
                render=config.render,
                action_seconds=config.action_seconds,
                step_seconds=config.step_seconds,
            )
            MiniWob._browsers[key] = ForeignRuntime(program, processes=config.browsers)
        return MiniWob._browsers[key]

    def _beginning(self) -> dict[str, Any]:
        """The library makes some problems of other words in its mode `test` than in `train`."""
        beginning = super()._beginning()
        return {**beginning, "mode": "train" if beginning["seed"] >= TRAIN_SEEDS else "test"}

    def task_tools(self) -> Sequence[Tool]:
        """Mouse, keys and time."""
        return _TOOLS

    def _action(self, name: str, arguments: dict[str, Any]) -> object:
        return {"do": name, **arguments}
