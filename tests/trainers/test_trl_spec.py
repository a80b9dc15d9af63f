"""`HubSpec`: objects that TRL can play with are episodes of the hub's, each opened, verified and closed."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError, ToolError, UnknownNameError
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.trl import HubSpec

GAME = Path(__file__).parent / "trl_game.py"


@pytest.fixture
def spec() -> Generator[HubSpec]:
    """The counting game."""
    with HubSpec([str(GAME)], credentials=Credentials({})) as opened:
        yield opened


def ready(spec: HubSpec, place: int = 0) -> Any:
    """An object that plays a row, as TRL makes one."""
    factory: Any = spec.environment_factory
    player = factory()
    assert player.reset(**spec.rows[place]) is None
    return player


def verdict(spec: HubSpec, player: Any, place: int = 0, said: str = "done") -> list[float | None]:
    """What TRL is told."""
    (reward,) = spec.reward_funcs
    return reward(
        prompts=[spec.rows[place]["prompt"]],
        completions=[[{"role": "assistant", "content": said}]],
        environments=[player],
    )


def test_rows_show_the_public_half_of_each_task_and_name_it(spec: HubSpec) -> None:
    row = spec.rows[0]
    assert row["prompt"] == [{"role": "system", "content": "Count."}, {"role": "user", "content": "Count to 2."}]
    assert row["task"] == '{"environment": "trl_game", "split": "test", "task_id": "2"}'
    assert set(row) == {"prompt", "task", "environment", "source"}


def test_an_episode_is_played_by_methods_and_scored_with_what_was_said(spec: HubSpec) -> None:
    player = ready(spec)
    assert player.add(number=1) == "1"
    assert player.add(number=1, note="aloud") == "2 aloud"
    assert verdict(spec, player) == [1.0]
    assert verdict(spec, player, said="a second word") == [1.0], "the first verdict stands"
    with pytest.raises(ToolError, match="over"):
        player.add(number=1)


def test_what_a_tool_refuses_is_raised_with_its_words(spec: HubSpec) -> None:
    player = ready(spec)
    with pytest.raises(ToolError, match="only forwards"):
        player.add(number=-1)
    with pytest.raises(ToolError, match="missing"):
        player.add()


def test_an_episode_without_a_verdict_has_no_reward_and_not_zero(spec: HubSpec) -> None:
    assert verdict(spec, ready(spec, 2), 2) == [None]


def test_a_reset_gives_a_fresh_episode(spec: HubSpec) -> None:
    player = ready(spec)
    player.add(number=2)
    player.reset(**spec.rows[0])
    assert player.add(number=1) == "1"


def test_every_episode_is_closed_when_the_block_is_left(spec: HubSpec) -> None:
    player = ready(spec)
    world = player._episode.environment
    assert world.open_episodes == 1
    spec.__exit__(None, None, None)
    assert world.open_episodes == 0


def test_a_row_of_no_known_task_is_refused(spec: HubSpec) -> None:
    player = ready(spec)
    with pytest.raises(UnknownNameError, match="no-such"):
        player.reset(task='{"environment": "trl_game", "split": "test", "task_id": "no-such"}')
    with pytest.raises(ConfigError, match="names no task"):
        player.reset(task="2")


def test_the_object_owns_its_reward_where_that_is_asked_for() -> None:
    with HubSpec([str(GAME)], owns_reward=True, credentials=Credentials({})) as spec:
        player = ready(spec)
        player.add(number=2)
        assert spec.reward_funcs == []
        assert player.get_reward() == 0.5, "what was said last is not seen"


def test_methods_that_trl_takes_for_tools_are_the_environments(spec: HubSpec) -> None:
    player = ready(spec)
    names = {name for name in dir(player) if not name.startswith("_")}
    assert names == {"add", "submit", "reset"}


def test_several_environments_are_chosen_by_a_column_and_each_has_its_own_tools() -> None:
    with HubSpec([str(GAME), "arithmetic"], limit=2, credentials=Credentials({})) as spec:
        factories: Any = spec.environment_factory
        assert [row["environment"] for row in spec.rows] == ["trl_game", "trl_game", "arithmetic", "arithmetic"]
        players = [factories[row["environment"]]() for row in spec.rows]
        for player, row in zip(players, spec.rows, strict=True):
            assert player.reset(**row) is None
        game, sums = players[0], players[2]
        assert (hasattr(game, "add"), hasattr(game, "calculate")) == (True, False)
        assert (hasattr(sums, "add"), hasattr(sums, "calculate")) == (False, True)
        assert sums.calculate(expression="1 + 2") == "3"
        assert verdict(spec, sums, 2, said="no idea") == [0.0]
        with pytest.raises(UnknownNameError, match="'arithmetic'"):
            game.reset(**spec.rows[2])
