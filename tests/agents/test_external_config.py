"""What an external agent refuses to be told, and in which words."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub_agents.external import ExternalConfig
from rollouthub_agents.external.profile import load_profile, profile_names
from rollouthub_agents.external.templates import PLACEHOLDERS, names_in
from tests.agents.external_stage import external

PROFILES = ("claude-code", "codex", "langchain", "mini-swe-agent", "openai-agents", "opencode", "pydantic-ai")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "^agent 'external': give either a command .* or a profile"),
        ({"command": "a", "profile": "codex"}, "^agent 'external': give either a command .* or a profile"),
        (
            {"command": "a {agent_ulr}"},
            r"no placeholder \{agent_ulr\}; did you mean \{agent_url\}\? .* double the braces",
        ),
        ({"command": "a 'b"}, "No closing quotation"),
        ({"command": "a", "program": "b"}, "`program` is the profile's"),
        ({"command": "a", "image": "x", "sandbox": "process"}, "an image needs sandbox=docker, not process"),
        ({"command": "a", "shows": "/srv", "sandbox": "none"}, "`shows` is for sandbox=process; with none"),
        ({"command": "a", "shows": "/srv", "image": "x"}, "put what the program needs into its image"),
        ({"command": "a", "env": {"OPENAI_API_KEY": "mine"}}, "OPENAI_API_KEY is set by the hub"),
        ({"command": "a", "env": {"A=B": "c"}}, "'A=B' is no name of a variable"),
        ({"command": "a", "env": {"A": "c"}, "pass_env": "A"}, "A is given twice"),
        ({"command": "a", "pass_env": "NOBODY_HAS_SET_THIS"}, "NOBODY_HAS_SET_THIS, which the hub's own environment"),
        ({"command": "a", "files": "not/here"}, "files names 'not/here', which is not there"),
        ({"command": "a", "timeout_seconds": 0}, "timeout_seconds = 0"),
        ({"command": "a", "sandbox": "vm"}, "sandbox = 'vm'"),
        ({"command": "a", "comand": "b"}, "comand.*command"),
    ],
)
def test_what_does_not_hold_is_refused_by_name(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        external(**settings)


def test_an_unknown_profile_is_met_with_the_nearest_known() -> None:
    with pytest.raises(UnknownNameError, match=r"no profile is named 'claude-cod'; did you mean 'claude-code'\?"):
        external(profile="claude-cod")


def test_a_line_is_split_as_a_shell_would_and_no_further() -> None:
    config = ExternalConfig.model_validate({"command": "agent --task '{prompt}' a\\ b $HOME | cat"})
    assert config.command == ("agent", "--task", "{prompt}", "a b", "$HOME", "|", "cat")


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({}, "process"), ({"image": "x"}, "docker"), ({"sandbox": "none"}, "none"), ({"sandbox": "docker"}, "docker")],
)
def test_without_a_word_there_are_walls(settings: dict[str, Any], kind: str) -> None:
    assert ExternalConfig.model_validate({"command": "a", **settings}).kind == kind


def test_the_record_holds_names_of_passed_variables_and_not_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    agent = external(command="a", pass_env=["MY_SECRET"])
    assert agent.config["pass_env"] == ["MY_SECRET"]
    assert "hunter2" not in repr(agent.config) + repr(vars(agent))


def test_the_recorded_configuration_makes_the_same_agent_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    agent = external(command="a '{prompt}'", files=str(tmp_path / "a.txt"), env={"A": "b"}, timeout_seconds=3)
    assert external(**agent.config).config == agent.config


def test_every_promised_profile_is_there() -> None:
    assert profile_names() == PROFILES


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_pinned_and_says_how_to_install_it(name: str) -> None:
    profile = load_profile(name)
    assert profile.version in profile.install
    assert names_in((*profile.command, *profile.env.values())) <= set(PLACEHOLDERS)
    assert profile.command[0] == profile.probe[0] == "{program}"


@pytest.mark.parametrize("name", PROFILES)
def test_a_profiles_files_stay_below_home(name: str) -> None:
    for path in load_profile(name).files:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
