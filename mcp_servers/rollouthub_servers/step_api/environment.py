"""`StepGame`: one game of a step API, played by one seat or by several in turn; agents never see the rewards."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from anyio import to_thread
from mcp_types import TextContent, Tool
from pydantic import Field

from rollouthub import (
    Deadlines,
    Environment,
    EnvironmentConfig,
    Media,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    Text,
    ToolError,
    picture,
)
from rollouthub.authoring.turn_keeper import TurnKeeper
from rollouthub.errors import ConfigError, SandboxOverrun
from rollouthub.values import Frozen
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession
from rollouthub_servers.step_api.games import NLTK_FOLDER, Catalogue, KnownGame, Render, read_catalogue
from rollouthub_servers.step_api.program import step_program

MOST_CHARACTERS = 20_000
"""Maximum number of characters of a text action."""
MOST_IDLE = 3
"""Number of messages without an action after which a seat's player counts as having left."""
TRAIN_SEEDS = 1_000_000
"""First seed of the split `train`."""
_OVER = "It is over."


class StepConfig(EnvironmentConfig):
    """Settings of the games: which ids, which seeds, and whether they are rendered."""

    data: str
    """The folder that the import wrote, with `games.json`."""
    ids: tuple[str, ...] = ()
    """Ids of the games to play, or patterns of ids (`*`, `?`, `[…]`); all by default."""
    seeds: int = Field(default=10, ge=1, le=TRAIN_SEEDS)
    """Number of tasks for each id, with consecutive seeds: from 0 in the split `test`, from 1,000,000 in `train`."""
    render: Render = "none"
    """What is shown beside an observation where the environment can render itself: `text` or `picture`."""
    step_seconds: float = Field(default=60.0, gt=0)
    """Maximum seconds for one step of the library."""
    left_reward: float = -1.0
    """Reward of a seat that leaves a game whose rewards come at its end. In a game of two the other seat gets the
    opposite, in larger games the others get 0. (Where each step is rewarded, every seat keeps its rewards so far.)
    """


class _Turn(Frozen):
    """A driver's answer after a reset or step."""

    seat: int | None = None
    """Index of the seat that acts next; None once the game is over."""
    shown: list[dict[str, str]] = []
    over: bool = False
    rewards: list[float | None] | None = None
    """Each seat's total reward so far; None before the end of a game that gives rewards only at its end."""
    broke: str | None = None
    """The library's error at an action; None without one."""


class StepGame(Environment[StepConfig]):
    """One game from one seed. Subclasses define the number of seats."""

    submits = False
    _runtimes: ClassVar[dict[tuple[str, Render], ForeignRuntime]] = {}

    def __init__(self, task: Task[Public, Secret], config: StepConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.game: KnownGame = read_catalogue(Path(config.data)).game(str(task.public.metadata["game"]))
        self.turns = TurnKeeper(self.seats)
        self.turn = _Turn()
        self.rewards: list[float | None] | None = None
        """Each seat's total reward, as last reported by the library."""
        self.steps = 0
        self.leaver: str | None = None
        self.news: dict[str, list[Text | Media]] = {}
        """What a seat is to be shown at its turn."""
        self.session: ForeignSession
        self._idle = dict.fromkeys(self.seats, 0)

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """Both splits have the same games, but different seeds."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: StepConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Yield each id with each seed. The run's seed has no effect, so that a task is the library's own
        `reset(seed)`.
        """
        first = TRAIN_SEEDS if split == "train" else 0
        for game in _chosen(cls._catalogue(config), config.ids):
            for number in range(first, first + config.seeds):
                yield Task(
                    Public(
                        id=f"{game.id}/{number}",
                        prompt=game.prompt,
                        source=game.id,
                        metadata={"game": game.id, "seed": number},
                    ),
                    Secret(),
                )

    @classmethod
    def deadlines(cls, config: StepConfig) -> Deadlines:
        """With several seats, a tool call may wait for the other players' moves, so its deadline is longer."""
        if len(cls.seats) > 1:
            return Deadlines(tool_call=900)
        return Deadlines(tool_call=config.step_seconds + 30)

    @classmethod
    async def prepare(cls, config: StepConfig) -> None:
        """Create the library's virtual environment if there is none yet."""
        await to_thread.run_sync(cls._runtime, config)

    @classmethod
    def _catalogue(cls, config: StepConfig) -> Catalogue:
        catalogue = read_catalogue(Path(config.data))
        if catalogue.players != len(cls.seats):
            raise ConfigError(f"{config.data} holds games of {catalogue.players} seats, and {len(cls.seats)} are here")
        return catalogue

    @classmethod
    def _runtime(cls, config: StepConfig) -> ForeignRuntime:
        key = (config.data, config.render)
        if key not in StepGame._runtimes:
            folder, catalogue = Path(config.data), cls._catalogue(config)
            python = foreign_home().python(ForeignLock.read(folder / LOCK_FILE).dependencies)
            nltk = folder / NLTK_FOLDER
            program = step_program(
                catalogue.library,
                python,
                modules=catalogue.modules,
                absent=catalogue.absent,
                render=config.render,
                ids=[game.id for game in catalogue.games],
                nltk=nltk if nltk.is_dir() else None,
            )
            StepGame._runtimes[key] = ForeignRuntime(program)
        return StepGame._runtimes[key]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        """Hold a process of the library for this game alone."""
        runtime = await to_thread.run_sync(self._runtime, self.config)
        async with runtime.session() as self.session:
            yield

    async def setup(self) -> None:
        """Reset the game."""
        await self._ask("reset", **self._beginning())
        if self.turn.over:
            raise ConfigError(f"{self.task.id} is over before anybody acts")

    def _beginning(self) -> dict[str, Any]:
        """What a game begins with."""
        return {"id": self.game.id, "seed": self.task.public.metadata["seed"], "players": len(self.seats)}

    async def _ask(self, do: str, **given: Any) -> None:
        """Send a request to the library, and record whose turn it is.

        Raises:
            ForeignRefusal: the library refused the action.
            TaskError: the process is gone, hangs, or its code fails.
        """
        ask = self.session.ask if do == "reset" else partial(self.session.act, what="an action")
        try:
            answer: Any = await ask(do, seconds=self.config.step_seconds, **given)
        except SandboxOverrun as error:  # as an action that the library fails at
            answer = {"seat": self.turn.seat, "shown": [], "over": False, "broke": str(error)}
        self.turn = _Turn.model_validate(answer)
        self.rewards = self.turn.rewards or self.rewards
        if self.turn.over or self.turn.broke is not None:
            self.turns.end()
        elif self.turn.seat is not None:
            seat = self.seats[self.turn.seat]
            self.news[seat] = _parts(self.turn.shown)
            self.turns.put(seat, is_over=False)

    def task_tools(self) -> Sequence[Tool]:
        """One tool `step`, or a tool for each named action."""
        if not self.game.actions:
            return [tool("step", "Act, and see what comes of it.", self.game.arguments)]
        return [tool(name, f"{name.replace('_', ' ').capitalize()}.", {}) for name in self.game.actions]

    def messages(self, seat: str) -> Sequence[Message]:
        """The game's prompt, and the first observation of the seat."""
        return [Message(role="user", content=(Text(text=self._prompt(seat)), *self.news.pop(seat, [])))]

    def _prompt(self, seat: str) -> str:
        return self.game.prompt

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Act for the calling seat; return when it is that seat's turn again, or the game is over."""
        seat = self.calling_seat
        if self.turns.is_over:
            raise ToolError(_OVER)
        if self.turns.current != seat:
            raise ToolError("It is not your turn; say something to wait for it.")
        action = self._action(name, arguments)
        if isinstance(action, str) and len(action) > MOST_CHARACTERS:
            raise ToolError(f"an action has at most {MOST_CHARACTERS:,} characters, not {len(action):,}")
        try:
            await self._ask("step", action=action)
        except ForeignRefusal as refusal:
            raise ToolError(str(refusal)) from refusal
        self.steps += 1
        if self.turn.broke is not None:
            self.leaver = seat
        if self.turns.is_over or not await self.turns.wait(seat):
            self.end_episode()
            last = _parts(self.turn.shown) if self.turn.over else []  # else it is what another was to see
            return _blocks([*last, Text(text=_OVER)])
        return _blocks(self.news.pop(seat, []))

    def _action(self, name: str, arguments: dict[str, Any]) -> object:
        """The library's action for a call of a tool."""
        return self.game.actions[name] if self.game.actions else arguments["action"]

    def verify(self, submission: Submission) -> Score:
        """Score each seat by the rewards that the library gave."""
        earned = self._earned()
        missing = [seat for seat, reward in earned.items() if reward is None]
        if missing:
            raise ValueError(f"{self.game.id} ended without a reward for {', '.join(missing)}")
        rewards = {seat: float(reward) for seat, reward in earned.items() if reward is not None}
        return Score(
            reward=rewards[self.seats[0]],
            seat_rewards=rewards if len(self.seats) > 1 else {},
            suspect=None if self.turn.broke is None else f"{self.game.id} failed at an action: {self.turn.broke}",
            metrics={"steps": float(self.steps), "over": float(self.turn.over)},
            feedback=self._feedback(),
        )

    def _feedback(self) -> str:
        if self.turn.over:
            return f"over after {self.steps} steps"
        return f"{self.leaver or self.turns.current} left after {self.steps} steps"

    def _earned(self) -> dict[str, float | None]:
        if self.rewards is not None:
            return dict(zip(self.seats, self.rewards, strict=True))
        if self.turn.over:
            return dict.fromkeys(self.seats)
        leaver, left = self.leaver or self.turns.current, self.config.left_reward
        others = -left if len(self.seats) == 2 else 0.0
        return {seat: left if seat == leaver else others for seat in self.seats}


class SharedGame(StepGame):
    """A game of several players, who act in turn."""

    takes_turns = True

    def _prompt(self, seat: str) -> str:
        number = self.seats.index(seat)
        return f"{self.game.prompt}\n\nYou are player {number} of {len(self.seats)}; the first is player 0."

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Wait for a seat's turn. A message without an action is no move; after `MOST_IDLE` of them the seat counts
        as having left.
        """
        if messages and not self.turns.is_over and self.turns.current == seat:
            self._idle[seat] += 1
            if self._idle[seat] >= MOST_IDLE:
                self.left(seat)
                return None
            return [Message(role="user", content="Words are no move: call `step`.")]
        if not await self.turns.wait(seat):
            return None
        news = self.news.pop(seat, [])
        return [Message(role="user", content=tuple(news))] if news else []

    def left(self, seat: str) -> None:
        """End the game, because one player has left."""
        if not self.turns.is_over:
            self.leaver = seat
            self.turns.end()


def _chosen(catalogue: Catalogue, patterns: Sequence[str]) -> list[KnownGame]:
    found = [game for game in catalogue.games if not patterns or any(fnmatchcase(game.id, each) for each in patterns)]
    if not found:
        raise ConfigError(f"ids={list(patterns)!r} names none of the {len(catalogue.games)} games that were imported")
    return found


def _parts(shown: Sequence[dict[str, str]]) -> list[Text | Media]:
    return [picture(b64decode(part["png"])) if "png" in part else Text(text=part["text"]) for part in shown]


def _blocks(parts: Sequence[Text | Media]) -> list[object]:
    return [TextContent(text=part.text) if isinstance(part, Text) else part for part in parts]


def tool(name: str, description: str, arguments: dict[str, Any], optional: Collection[str] = ()) -> Tool:
    """A tool with arguments by their schemas; all are required but for the optional ones."""
    required = [each for each in arguments if each not in optional]
    schema = {"type": "object", "properties": arguments, "required": required, "additionalProperties": False}
    return Tool(name=name, description=description, input_schema=schema)
