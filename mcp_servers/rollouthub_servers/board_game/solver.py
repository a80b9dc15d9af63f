"""The value of positions under best play, by search to the end of the game."""

from functools import lru_cache

from rollouthub_servers.board_game.games import GAMES, Position

MOST_POSITIONS = 2**17
"""Most positions whose values are cached; the largest game has some tens of thousands."""


@lru_cache(maxsize=MOST_POSITIONS)
def value(game: str, position: Position) -> int:
    """The value of a position for the player to move: 1 if it can win, 0 if it can draw, -1 if it must lose."""
    rules = GAMES[game]
    ended = rules.ended(position)
    if ended is not None:
        return ended
    best = -1
    for move in rules.moves(position):
        best = max(best, -value(game, rules.after(position, move)))
        if best == 1:
            break
    return best


def best_moves(game: str, position: Position) -> tuple[str, ...]:
    """The moves that keep the value of the position."""
    rules, worth = GAMES[game], value(game, position)
    return tuple(move for move in rules.moves(position) if -value(game, rules.after(position, move)) == worth)


def best_line(game: str, position: Position) -> tuple[str, ...]:
    """The moves of both players under best play to the end; the first best move each time."""
    rules, line = GAMES[game], list[str]()
    while rules.ended(position) is None:
        line.append(best_moves(game, position)[0])
        position = rules.after(position, line[-1])
    return tuple(line)
