"""`board_game`: two seats play Nim, tic-tac-toe or connect three; a solver knows which moves were right."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rollouthub import (
    Deadlines,
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)
from rollouthub.authoring.turn_keeper import TurnKeeper
from rollouthub.messages import assistant, user
from rollouthub_servers.board_game.games import GAMES, MARKS, Position
from rollouthub_servers.board_game.solver import best_line, best_moves, value

__all__ = ["BoardGame", "BoardGameConfig"]

SEATS: tuple[str, ...] = ("first", "second")
Name = Literal["nim", "tic_tac_toe", "connect_three"]


class BoardGameConfig(EnvironmentConfig):
    """Number and kind of games, and the cost of illegal moves."""

    size: int = Field(default=1000, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    game: Literal["any"] | Name = "any"
    """The game; `any` draws one for each task."""
    illegal_moves: int = Field(default=3, ge=1)
    """Number of illegal moves, or messages without a move, that lose the game."""
    turn_rewards: bool = False
    """Whether turns get rewards, too: 1 for a move that keeps the position's value, 0 for any other."""


@dataclass(frozen=True, slots=True)
class Played:
    """A call of `move`, with the solver's judgement."""

    seat: str
    move: str
    is_best: bool
    is_legal: bool = True


class BoardGame(Environment[BoardGameConfig]):
    """A game for two with a known solution."""

    seats = SEATS
    takes_turns = True
    submits = False
    scores_states = True

    def __init__(self, task: Task[Public, Secret], config: BoardGameConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.game = str(task.public.metadata["game"])
        self.rules = GAMES[self.game]
        self.position = Position(str(task.public.metadata["board"]))
        self.turns = TurnKeeper(SEATS)
        self.played: list[Played] = []
        self.forfeit: str | None = None
        """The seat that lost by leaving or by illegal moves; None if there is none."""
        self._news = ""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: BoardGameConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Generate the games lazily, each from its own random stream."""
        for index in range(config.size):
            random = Random(f"{seed}/{split}/{index}")
            name = random.choice(sorted(GAMES))
            if config.game != "any":
                name = config.game
            position = GAMES[name].opening(random)
            metadata: dict[str, JsonValue] = {"game": name, "board": position.board}
            prompt = _PROMPT.format(rules=GAMES[name].rules, most=config.illegal_moves)
            yield Task(Public(id=f"{split}/{index}", prompt=prompt, metadata=metadata), Secret())

    @classmethod
    def deadlines(cls, config: BoardGameConfig) -> Deadlines:
        """A long deadline for tool calls, since a call waits for the other player's move."""
        return Deadlines(tool_call=900)

    def messages(self, seat: str) -> Sequence[Message]:
        """The rules, the board, and who the player is."""
        mark = "" if self.game == "nim" else f" Your mark is {MARKS[SEATS.index(seat)]}."
        turn = "You move first." if seat == SEATS[0] else "The other moves first."
        prompt = self.task.public.prompt
        return [user(f"{prompt}\n\n{turn}{mark}\n\n{self.rules.drawn(self.position)}")]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Wait for the seat's turn; a message without a move counts as an illegal move."""
        if messages and not self.turns.is_over and self.turns.current == seat:
            self._count_illegal(seat, "")
            return None if self.turns.is_over else [user("Words are no move: call `move`.")]
        if not await self.turns.wait(seat):
            return None
        return [user(self._news)] if self._news else []

    def left(self, seat: str) -> None:
        """A player who leaves loses the game."""
        if not self.turns.is_over:
            self._give_up(seat)

    @tool
    async def move(self, move: str) -> str:
        """Make a move, and wait for the other player's.

        Args:
            move: As the rules write it.
        """
        seat = self.calling_seat
        if self.turns.is_over:
            raise ToolError("The game is over.")
        if self.turns.current != seat:
            raise ToolError("It is not your turn; say something to wait for it.")
        legal = self.rules.moves(self.position)
        wanted = move.strip().lower()
        if wanted not in legal:
            self._count_illegal(seat, move)
            if not self.turns.is_over:
                raise ToolError(f"{move!r:.40} is no legal move here; there are: {', '.join(legal)}")
            self.end_episode()
            return "That was one illegal move too many: you lose."
        self.played.append(Played(seat, move, wanted in best_moves(self.game, self.position)))
        self.position = self.rules.after(self.position, wanted)
        self._news = f"The other plays {wanted}.\n\n{self.rules.drawn(self.position)}\n\nYour move."
        if (ended := self.rules.ended(self.position)) is not None:
            self.turns.end()
            self.end_episode()
            return "You win." if ended else "It is a draw."
        self.turns.pass_on()
        if not await self.turns.wait(seat):
            self.end_episode()
        return self._news

    def _count_illegal(self, seat: str, move: str) -> None:
        self.played.append(Played(seat, move, is_best=False, is_legal=False))
        if sum(played.seat == seat and not played.is_legal for played in self.played) >= self.config.illegal_moves:
            self._give_up(seat)

    def _give_up(self, seat: str) -> None:
        self.forfeit = seat
        self._news = "The other has lost by leaving, or by illegal moves: you win."
        self.turns.end()

    def reference_of(self, seat: str) -> Sequence[Message]:
        """The seat's moves under best play of both players, to the end."""
        line = best_line(self.game, Position(str(self.task.public.metadata["board"])))
        requests = (
            ToolRequest(id=f"reference-{place}", name="move", arguments=json.dumps({"move": move}))
            for place, move in enumerate(line)
        )
        return [assistant("", request) for request in list(requests)[SEATS.index(seat) :: 2]]

    def snapshot(self) -> JsonValue:
        """The position, the moves played, and the last message to a player."""
        saved = _SavedGame(
            board=self.position.board,
            player=self.position.player,
            is_over=self.turns.is_over,
            forfeit=self.forfeit,
            played=[(each.seat, each.move, each.is_best, each.is_legal) for each in self.played],
            news=self._news,
        )
        return saved.model_dump(mode="json")

    async def restore(self, state: JsonValue) -> None:
        """Restore a snapshot."""
        saved = _SavedGame.model_validate(state)
        self.position = Position(saved.board, saved.player)
        self.played = [Played(*each) for each in saved.played]
        self.forfeit, self._news = saved.forfeit, saved.news
        self.turns.put(SEATS[saved.player], is_over=saved.is_over)

    def verify(self, submission: Submission) -> Score:
        """Determine the winner, and the share of moves that kept the position's value."""
        loser = self._loser()
        rewards = {seat: 0.5 if loser is None else float(seat != loser) for seat in SEATS}
        is_short = self.rules.ended(self.position) is None
        right, calls = sum(each.is_best for each in self.played), len(self.played) + is_short
        start = Position(str(self.task.public.metadata["board"]))
        return Score(
            reward=right / calls,
            passed=right == calls,
            seat_rewards=rewards,
            turn_rewards=self._turn_rewards(submission) if self.config.turn_rewards else {},
            metrics=self._metrics(),
            feedback=f"{self._ending(loser)}; with best play {_RESULTS[value(self.game, start)]}",
        )

    def _loser(self) -> str | None:
        """The seat that lost; None for a draw."""
        ended = self.rules.ended(self.position)
        if ended is None:  # who was to move when all time was over has lost, as who leaves
            return self.forfeit or self.turns.current
        return None if ended == 0 else SEATS[self.position.player]

    def _ending(self, loser: str | None) -> str:
        if loser is None:
            return "a draw"
        return f"{loser} lost" + ("" if self.rules.ended(self.position) is not None else " before the end")

    def _metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"moves": float(sum(each.is_legal for each in self.played))}
        for seat in SEATS:
            own = [each for each in self.played if each.seat == seat]
            metrics[f"{seat}.illegal"] = float(sum(not each.is_legal for each in own))
            if own:
                metrics[f"{seat}.optimal"] = sum(each.is_best for each in own) / len(own)
        return metrics

    def _turn_rewards(self, submission: Submission) -> dict[int, float]:
        """For each turn, 1 if its last move kept the position's value, else 0; only calls that match moves count."""
        waiting = {seat: [each for each in self.played if each.seat == seat and each.move] for seat in SEATS}
        rewards: dict[int, float] = {}
        for turn in submission.turns:
            for request in turn.response.tool_requests:
                calls = waiting[turn.seat]
                if request.name == "move" and calls and _move_of(request) == calls[0].move:
                    rewards[turn.index] = float(calls.pop(0).is_best)
        return rewards


class _SavedGame(BaseModel):
    model_config = ConfigDict(extra="forbid")

    board: str
    player: int = Field(ge=0, le=1)
    is_over: bool
    forfeit: str | None
    played: list[tuple[str, str, bool, bool]]
    news: str


_RESULTS = {1: "the first seat wins", 0: "it is a draw", -1: "the second seat wins"}
_PROMPT = """\
You play a game against another player. {rules}

Make your move with the tool `move`; it tells you what the other plays. {most} illegal moves lose the game."""


def _move_of(request: ToolRequest) -> str | None:
    try:
        arguments: object = json.loads(request.arguments)
    except ValueError:
        return None
    found: object = arguments.get("move") if isinstance(arguments, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    return found if isinstance(found, str) else None
