"""The contract of environments: whatever the entry points name, and one that a stranger wrote."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

import rollouthub
from rollouthub import BadRow, Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.entry_points import AGENTS, ENVIRONMENTS, plugins
from rollouthub.plugins.environments import FoundEnvironment, find_environment
from tests.contract.conftest import CONTAINERS, make_subject
from tests.mcp_servers.conftest import images
from tests.plugins.stranger import names_of, register

__all__ = ["images"]

STRANGER = "acme/spell"


class Spell(Environment[EnvironmentConfig]):
    """Spell a word: written from the class's own docstring."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Two words."""
        for word in ("tea", "bread"):
            yield Task(Public(id=word, prompt="Spell it."), Secret(answer=word, reference=(assistant(word),)))

    async def verify(self, submission: Submission) -> Score:
        """Right if it is spelt as it should be."""
        passed = submission.final == self.task.secret.answer
        return Score(reward=float(passed), passed=passed)


@pytest.fixture(params=names_of(ENVIRONMENTS, STRANGER))
def found(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FoundEnvironment:
    """Each environment, as its name finds it."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, ENVIRONMENTS, STRANGER, f"{__name__}:Spell")
    return find_environment(request.param)


def settings(found: FoundEnvironment, folder: Path) -> dict[str, JsonValue]:
    """What it needs to have tasks on any machine; a preset plays rows of the class that it is of."""
    if found.name == STRANGER:
        return {}
    named = (find_environment(name) for name in plugins(ENVIRONMENTS))
    own = found.name
    if found.defaults:
        own = next(each.name for each in named if each.environment is found.environment and not each.defaults)
    return make_subject(own, folder).settings


def test_it_says_what_it_is_and_who_plays_it(found: FoundEnvironment) -> None:
    environment = found.environment
    assert found.summary
    assert re.fullmatch(r"\d+\.\d+\.\d+([.+-][\w.+-]+)?", environment.version)
    assert environment.default_agent in plugins(AGENTS)
    assert environment.seats
    assert len(set(environment.seats)) == len(environment.seats)
    assert found.is_trusted == (found.name != STRANGER)


def test_settings_it_does_not_know_are_refused(found: FoundEnvironment) -> None:
    with pytest.raises(ConfigError, match="speeed"):
        check_config(found.environment.config_type, {**found.defaults, "speeed": 1}, found.name, "--set")


def test_the_same_seed_gives_the_same_tasks(found: FoundEnvironment, tmp_path: Path) -> None:
    given = {**found.defaults, **settings(found, tmp_path)}
    config = check_config(found.environment.config_type, given, found.name, "--set")
    host = InProcessHost(found.name, found.environment, config)
    split = found.environment.splits(config)[0]

    def drawn() -> list[tuple[str, str]]:
        cards = [card for card, _ in zip(host.cards(split, 3), range(4), strict=False)]
        return [(card.public.id, card.digest) for card in cards if not isinstance(card, BadRow)]

    assert drawn() == drawn() != []
    assert len({name for name, _ in drawn()}) == len(drawn())


def test_the_reference_passes_and_doing_nothing_does_not(
    found: FoundEnvironment, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if found.name in CONTAINERS:
        monkeypatch.setenv("ROLLOUTHUB_IMAGES", request.getfixturevalue("images"))
    given: dict[str, Any] = {"set": settings(found, tmp_path), "in_process": True, "limit": 1, "seed": 3}
    monkeypatch.chdir(tmp_path)
    played = [
        rollouthub.evaluate(found.name, None, agent=agent, directory=agent, **given) for agent in ("oracle", "null")
    ]
    assert [run.summary.scored for run in played] == [1, 1]
    best, none = (run.mean_reward for run in played)
    assert best is not None
    assert none is not None
    assert best > none


def test_a_wrong_name_is_met_with_the_right_one(found: FoundEnvironment) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{found.name}'"):
        find_environment(f"{found.name}s")


class Nothing:
    """It is no environment."""


def test_what_is_no_environment_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, ENVIRONMENTS, "acme/nothing", f"{__name__}:Nothing")
    with pytest.raises(ConfigError, match=r"'acme/nothing' .* is neither an Environment class nor a Preset"):
        find_environment("acme/nothing")
