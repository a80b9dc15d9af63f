"""`evaluate(..., seats=...)`: players of seats as words, as dicts and as objects."""

from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub import UsageError
from rollouthub.engine.seat_config import SeatConfig
from rollouthub.store import open_run
from tests.gateway.sessions.haggle import Haggle

EIGHT = "mock/say?text=eight"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "player",
    [EIGHT, {"model": EIGHT, "agent": "tool_loop"}, SeatConfig.model_validate({"model": EIGHT})],
    ids=["word", "dict", "SeatConfig"],
)
def test_a_seat_has_its_own_player(player: Any) -> None:
    run = rollouthub.evaluate(Haggle, "mock/say?text=seven", seats={"seller": player}, directory="run")
    assert run.mean_reward == 1.0
    with open_run(Path("run")) as reader:
        (rollout,) = reader.rollouts()
    assert [turn.response.text for turn in rollout.turns] == ["seven", "eight", "seven", "eight"]
    assert rollout.seats["seller"].model == EIGHT
    again = rollouthub.evaluate(
        Haggle, "mock/say?text=seven", seats={"seller": player}, repeats=2, directory="run", resume=True
    )
    assert again.summary.scored == 2


async def test_it_may_be_awaited_and_needs_no_model_where_every_seat_has_one() -> None:
    run = await rollouthub.aevaluate(Haggle, seats={"buyer": EIGHT, "seller": f"{EIGHT}@tool_loop"})
    assert run.mean_reward == 1.0


def test_a_player_that_cannot_be_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="did you mean 'seller'"):
        rollouthub.evaluate(Haggle, EIGHT, seats={"seler": EIGHT})
    with pytest.raises(UsageError, match=r"seats\.seller"):
        rollouthub.evaluate(Haggle, EIGHT, seats={"seller": {"modle": EIGHT}})
