"""Small two-player games with perfect information: rules, positions and boards as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

MARKS = "XO"
EMPTY = "."
COLUMNS = "abcd"


@dataclass(frozen=True, slots=True)
class Position:
    """The board, and the player to move."""

    board: str
    player: int = 0
    """The player to move: 0 or 1."""


class Game(Protocol):
    """The rules of a game."""

    rules: str

    def opening(self, random: Random) -> Position:
        """A starting position in which the first player moves and the game is not over."""
        ...

    def moves(self, position: Position) -> tuple[str, ...]:
        """The legal moves; empty if the game is over."""
        ...

    def after(self, position: Position, move: str) -> Position:
        """The position after a legal move."""
        ...

    def ended(self, position: Position) -> int | None:
        """The value of a finished position for the player to move: -1 (lost) or 0 (draw); None if the game goes on."""
        ...

    def drawn(self, position: Position) -> str:
        """The board as text."""
        ...


class Nim:
    """Nim: players take objects from heaps, and the player who takes the last object wins."""

    rules = (
        "Nim: there are heaps of objects. In its turn a player takes one object or more from one heap. Whoever takes "
        "the last object of all wins. A move is HEAP:COUNT, for example `2:3` takes three objects from heap 2."
    )

    def opening(self, random: Random) -> Position:
        """Three or four heaps of one to six objects."""
        return Position("".join(str(random.randint(1, 6)) for _ in range(random.randint(3, 4))))

    def moves(self, position: Position) -> tuple[str, ...]:
        """Any number of objects from any heap."""
        heaps = enumerate(position.board, start=1)
        return tuple(f"{place}:{count}" for place, heap in heaps for count in range(1, int(heap) + 1))

    def after(self, position: Position, move: str) -> Position:
        """The position after objects were taken from a heap."""
        place, count = (int(part) for part in move.split(":"))
        heaps = position.board
        left = str(int(heaps[place - 1]) - count)
        return Position(heaps[: place - 1] + left + heaps[place:], 1 - position.player)

    def ended(self, position: Position) -> int | None:
        """The player who finds no objects has lost."""
        return -1 if set(position.board) == {"0"} else None

    def drawn(self, position: Position) -> str:
        """One line per heap."""
        return "\n".join(f"heap {place}: {heap}" for place, heap in enumerate(position.board, start=1))


class _Grid:
    """A game on a grid in which a row of equal marks wins."""

    width: int
    height: int
    row: int
    """Number of marks in a row, column or diagonal that wins."""

    def ended(self, position: Position) -> int | None:
        """Lost if the other player has a row, drawn if the board is full."""
        if self._has_row(position.board, MARKS[1 - position.player]):
            return -1
        return None if EMPTY in position.board else 0

    def _has_row(self, board: str, mark: str) -> bool:
        taken = {(place % self.width, place // self.width) for place, each in enumerate(board) if each == mark}
        directions = ((1, 0), (0, 1), (1, 1), (1, -1))
        return any(
            all((x + step * across, y + step * down) in taken for step in range(self.row))
            for x, y in taken
            for across, down in directions
        )

    def drawn(self, position: Position) -> str:
        """The grid, with numbered rows and lettered columns."""
        rows = [position.board[start : start + self.width] for start in range(0, len(position.board), self.width)]
        lines = [f"{number} {' '.join(row)}" for number, row in enumerate(rows, start=1)]
        return "\n".join(["  " + " ".join(COLUMNS[: self.width]), *lines])

    def _put(self, position: Position, place: int) -> Position:
        board = position.board
        return Position(board[:place] + MARKS[position.player] + board[place + 1 :], 1 - position.player)

    def _played(self, random: Random, moves: int) -> Position:
        """A position after random moves in which no seat has won."""
        while True:
            position = Position(EMPTY * (self.width * self.height))
            for _ in range(moves):
                position = self.after(position, random.choice(self.moves(position)))
            if self.ended(position) is None:
                return position

    def moves(self, position: Position) -> tuple[str, ...]:
        raise NotImplementedError

    def after(self, position: Position, move: str) -> Position:
        raise NotImplementedError


class TicTacToe(_Grid):
    """Three in a row on three by three."""

    width = height = row = 3
    rules = (
        "Tic-tac-toe: in its turn a player puts its mark on an empty square. Three of one's own in a row, a column or "
        "a diagonal win; a full board without them is a draw. A move is a square, such as `b2`."
    )

    def opening(self, random: Random) -> Position:
        """The empty board, or one move of each player."""
        return self._played(random, random.choice((0, 2)))

    def moves(self, position: Position) -> tuple[str, ...]:
        """The empty squares."""
        if self.ended(position) is not None:
            return ()
        return tuple(
            f"{COLUMNS[place % 3]}{place // 3 + 1}" for place, mark in enumerate(position.board) if mark == EMPTY
        )

    def after(self, position: Position, move: str) -> Position:
        """The position with a mark on a square."""
        return self._put(position, COLUMNS.index(move[0]) + 3 * (int(move[1]) - 1))


class ConnectThree(_Grid):
    """Three in a row on four by four; marks fall to the lowest empty row of a column."""

    width = height = 4
    row = 3
    rules = (
        "Connect three: in its turn a player drops its mark into a column, where it falls on the lowest empty row. "
        "Three of one's own in a row, a column or a diagonal win; a full board without them is a draw. A move is a "
        "column: `a`, `b`, `c` or `d`."
    )

    def opening(self, random: Random) -> Position:
        """A position after one or two moves of each player."""
        return self._played(random, random.choice((2, 4)))

    def moves(self, position: Position) -> tuple[str, ...]:
        """The columns that are not full."""
        if self.ended(position) is not None:
            return ()
        return tuple(column for column, mark in zip(COLUMNS, position.board[:4], strict=True) if mark == EMPTY)

    def after(self, position: Position, move: str) -> Position:
        """The position with a mark on the lowest empty row of a column."""
        column = COLUMNS.index(move)
        place = max(place for place in range(column, 16, 4) if position.board[place] == EMPTY)
        return self._put(position, place)


GAMES: Mapping[str, Game] = {"nim": Nim(), "tic_tac_toe": TicTacToe(), "connect_three": ConnectThree()}
