"""`board_game`: the rules, the solver, and what a game is worth to whom."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Public, Secret, Submission, Task, ToolRequest
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import assistant
from rollouthub.score import SubmittedTurn
from rollouthub_servers.board_game import BoardGame, BoardGameConfig
from rollouthub_servers.board_game.games import GAMES, Position
from rollouthub_servers.board_game.solver import best_line, best_moves, value


@asynccontextmanager
async def game(name: str, board: str, **settings: Any) -> AsyncGenerator[HostedEpisode]:
    class Known(BoardGame):
        """One game."""

        @classmethod
        def tasks(cls, config: BoardGameConfig, split: str, seed: int) -> Any:
            yield Task(Public(id="one", prompt="Play.", metadata={"game": name, "board": board}), Secret())

    host = InProcessHost("board_game", Known, BoardGameConfig(**settings))
    card = next(host.cards("test", 0))
    assert not isinstance(card, BadRow)
    with anyio.fail_after(20):
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            assert isinstance(episode, HostedEpisode)
            yield episode


async def play(episode: HostedEpisode, *moves: str) -> list[str]:
    """Both players' moves in turn; what each call told."""
    told = [""] * len(moves)
    async with anyio.create_task_group() as calls:

        async def call(place: int) -> None:
            seat = ("first", "second")[place % 2]
            result = await episode.seats[seat].call_tool("move", {"move": moves[place]})
            told[place] = result.model_dump()["content"][0]["text"]

        for place in range(len(moves)):
            calls.start_soon(call, place)
            seat = ("second", "first")[place % 2]
            await episode.reply(seat, ())  # until it is that one's turn, or all is over
            if place == len(moves) - 1 and not episode.is_sealed:
                await episode.leave(seat)
    return told


@pytest.mark.parametrize(
    ("board", "worth"),
    [("111", 1), ("22", -1), ("345", 1), ("357", 1), ("246", -1), ("1", 1)],
)
def test_nim_is_won_where_the_heaps_do_not_cancel_out(board: str, worth: int) -> None:
    assert value("nim", Position(board)) == worth


def test_tic_tac_toe_is_a_draw_and_a_reply_on_the_edge_may_lose_it() -> None:
    assert value("tic_tac_toe", Position("." * 9)) == 0
    assert best_moves("tic_tac_toe", Position("XX.OO....")) == ("c1",)
    assert best_moves("tic_tac_toe", Position("X...O...X", 1)) == ("b1", "a2", "c2", "b3")


def test_marks_fall_down_and_three_connect() -> None:
    rules = GAMES["connect_three"]
    position = Position("." * 16)
    for move in ("a", "b", "a", "b"):
        position = rules.after(position, move)
    assert rules.drawn(position).splitlines()[-1] == "4 X O . ."
    assert best_moves("connect_three", position) == ("a",)
    assert rules.ended(rules.after(position, "a")) == -1


@pytest.mark.parametrize("name", sorted(GAMES))
def test_best_play_comes_to_what_the_opening_is_worth(name: str) -> None:
    rules = GAMES[name]
    for seed in range(20):
        opening = rules.opening(Random(seed))
        assert opening.player == 0
        assert rules.ended(opening) is None
        end = opening
        for move in best_line(name, opening):
            assert move in rules.moves(end)
            end = rules.after(end, move)
        ended = rules.ended(end)
        assert ended is not None
        assert value(name, opening) == (ended if end.player == 0 else -ended)


async def test_whoever_wins_gets_one_and_moves_that_were_right_count() -> None:
    async with game("tic_tac_toe", "XX.OO....") as episode:
        await play(episode, "c1")
        score = await episode.verify(Submission())
    assert (score.reward, score.passed) == (1.0, True)
    assert score.seat_rewards == {"first": 1.0, "second": 0.0}


async def test_a_move_that_gives_the_game_away_is_seen() -> None:
    async with game("tic_tac_toe", "XX.OO....", turn_rewards=True) as episode:
        told = await play(episode, "c3", "c2")
        first, second = (
            SubmittedTurn(index=index, seat=seat, messages=(), response=assistant("", request))
            for index, (seat, request) in enumerate([("first", requested("c3")), ("second", requested("c2"))])
        )
        score = await episode.verify(Submission(turns=(first, second)))
    assert told[1] in ("You win.", "The episode is closed.")
    assert (score.reward, score.passed) == (0.5, False)
    assert score.seat_rewards == {"first": 0.0, "second": 1.0}
    assert score.metrics["first.optimal"] == 0.0
    assert score.metrics["second.optimal"] == 1.0
    assert score.turn_rewards == {0: 0.0, 1: 1.0}


def requested(move: str) -> ToolRequest:
    return ToolRequest(id=move, name="move", arguments=json.dumps({"move": move}))


async def test_a_draw_is_half_for_each() -> None:
    async with game("tic_tac_toe", "XOXXOOO.X") as episode:  # one square is left
        await play(episode, "b3")
        score = await episode.verify(Submission())
    assert score.seat_rewards == {"first": 0.5, "second": 0.5}


async def test_illegal_moves_are_answered_and_too_many_lose() -> None:
    async with game("nim", "21", illegal_moves=3) as episode:
        first = episode.seats["first"]
        refused = await first.call_tool("move", {"move": "9:9"})
        assert refused.is_error
        assert "1:1, 1:2, 2:1" in str(refused)
        hint = await episode.reply("first", (assistant("Hm."),))
        assert hint is not None
        assert "call `move`" in hint[0].text
        await first.call_tool("move", {"move": "0:1"})
        assert episode.is_sealed
        score = await episode.verify(Submission())
    assert score.seat_rewards == {"first": 0.0, "second": 1.0}
    assert (score.reward, score.metrics["first.illegal"]) == (0.0, 3.0)


async def test_who_has_no_turn_cannot_move() -> None:
    async with game("nim", "21") as episode:
        refused = await episode.seats["second"].call_tool("move", {"move": "1:1"})
        assert refused.is_error
        assert "not your turn" in str(refused)


async def test_who_leaves_has_lost_and_the_other_hears_of_it() -> None:
    async with game("nim", "21") as episode:
        told = await play(episode, "1:1")
        assert told == ["The other has lost by leaving, or by illegal moves: you win."]
        score = await episode.verify(Submission())
    assert score.seat_rewards == {"first": 1.0, "second": 0.0}
    assert score.reward == 0.5


async def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    async with game("nim", "21") as episode:
        await play(episode, "1:1")
        state: Any = await episode.snapshot()
    async with game("nim", "21") as again:
        await again.environment.restore({**state, "is_over": False, "forfeit": None})
        async with anyio.create_task_group() as calls:
            calls.start_soon(again.seats["second"].call_tool, "move", {"move": "1:1"})
            assert await again.reply("first", ()) is not None
            calls.start_soon(again.seats["first"].call_tool, "move", {"move": "2:1"})
        assert (await again.verify(Submission())).seat_rewards == {"first": 1.0, "second": 0.0}


def test_tasks_are_the_same_for_the_same_seed_and_of_every_kind() -> None:
    tasks = [task.public.model_dump() for task in BoardGame.tasks(BoardGameConfig(size=30), "test", 1)]
    assert tasks == [task.public.model_dump() for task in BoardGame.tasks(BoardGameConfig(size=40), "test", 1)][:30]
    assert {task["metadata"]["game"] for task in tasks} == set(GAMES)
    only = BoardGame.tasks(BoardGameConfig(game="nim"), "train", 1)
    assert {str(task.public.metadata["game"]) for task in only} == {"nim"}
