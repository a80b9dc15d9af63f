"""Every setting of a run is written down once: options, files, Python and the documentation come from there."""

import inspect
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import tomli_w
from pydantic import BaseModel, Field

import rollouthub
from rollouthub.cli.setting_options import parameters_of, values_of
from rollouthub.engine.run_request import RunRequest, request_from_file
from rollouthub.errors import ConfigError
from rollouthub.settings import (
    FILE_ONLY,
    OnResume,
    Option,
    Setting,
    check_settings,
    on_resume,
    settings_of,
    takes_settings,
)
from tests.settings_page import settings_tables, written_tables

from .inside import Inside, hub_inside, options_of

SETTINGS = tuple(settings_of(RunRequest))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_a_setting_has_a_meaning_and_an_option_that_says_the_same(setting: Setting) -> None:
    assert setting.help.endswith((".", "…"))
    if setting.option.is_offered:
        flag = f"--no-{setting.flag[2:]}" if setting.default is True else setting.flag.partition("/")[0]
        assert options_of("run")[flag].help.replace("\\[", "[").startswith(setting.help)


@pytest.mark.parametrize("function", [rollouthub.evaluate, rollouthub.aevaluate, rollouthub.stream_rollouts])
def test_functions_that_take_settings_show_them_all(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    assert shown.keys() >= RunRequest.model_fields.keys()
    assert shown["limit"].default is None
    assert not [one for one in shown.values() if one.kind is one.VAR_KEYWORD]


def test_the_page_of_settings_lists_them_all() -> None:
    assert written_tables() == settings_tables(), "write it anew: python -m tests.settings_page"
    cells = [row.split(" | ") for row in settings_tables().splitlines()]
    listed = {row[0].strip("|` "): row[-1].removesuffix(" |") for row in cells if len(row) == 5}
    assert listed == {setting.key: setting.help for setting in SETTINGS} | {"setting": "meaning", "---": "---"}


@pytest.mark.parametrize("command", ["compare", "estimate", "play", "score", "serve agents", "serve rewards"])
def test_another_command_says_of_a_setting_what_a_run_says(command: str) -> None:
    meanings = {one.flag: one.help for one in SETTINGS if one.option.is_offered}
    others = [
        "--sample",
        "--model",
        "--base-url",
        "--task",
        "--split",
        "--seed",
        "--limit",
        "--concurrency",
        "--skip-bad",
    ]
    shared = {
        flag: one for flag, one in options_of(command).items() if flag in meanings and flag not in [*others, "ENV"]
    }
    assert shared
    assert [flag for flag, one in shared.items() if not one.help.replace("\\[", "[").startswith(meanings[flag])] == []


class LongerRequest(RunRequest):
    """A run with one setting more: this is the one edit."""

    patience: Annotated[int, Option(panel="Robustness"), OnResume.HARMLESS] = Field(
        default=3, ge=1, description="How often it waits."
    )


def test_one_more_setting_is_one_edit() -> None:
    settings = tuple(settings_of(LongerRequest))
    [option] = [each for each in parameters_of(settings) if "--patience" in each.opts]
    assert option.help.startswith("How often it waits.")
    assert values_of(settings, {option.name: 4}) == {"patience": 4}
    assert check_settings(LongerRequest, tomllib.loads("patience = 5"), "run.toml").patience == 5
    with pytest.raises(ConfigError, match="patience = 0"):
        check_settings(LongerRequest, {"patience": 0}, "evaluate()")

    def play(**settings: Any) -> None:
        """Something like `evaluate`."""

    shown = inspect.signature(takes_settings(LongerRequest)(play)).parameters["patience"]
    assert shown.default == 3
    assert "| `patience` | `--patience` | integer ≥ 1 | `3` | How often it waits. |" in settings_tables(LongerRequest)
    assert on_resume(LongerRequest, "patience") is OnResume.HARMLESS


def test_no_two_settings_have_one_option() -> None:
    flags = [setting.flag for setting in SETTINGS if setting.option.is_offered]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_a_file_takes_every_setting(setting: Setting, tmp_path: Path) -> None:
    value: Any = setting.default
    if value is None:
        value = setting.choices[0] if setting.choices else "text" if setting.is_a(str) else 1
        value = ["text"] if setting.is_a(tuple) else value
    for name in reversed(setting.path):
        value = {name: value}
    (tmp_path / "run.toml").write_text(tomli_w.dumps(value))
    assert request_from_file(tmp_path / "run.toml").keys() == {setting.path[0]}


class Nested(BaseModel):
    """A table of settings."""

    depth: int = Field(default=3, ge=1, description="How deep.")
    inner: Annotated[int, FILE_ONLY] = Field(default=0, description="Of files only.")


class Added(RunRequest):
    """A run with settings that nobody has heard of."""

    rate_limit: Annotated[float | None, Option(short="-x", panel="New")] = Field(
        default=None, ge=0, le=2, description="The rate [per second]."
    )
    careful: bool = Field(default=True, description="Take care.")
    nested: Annotated[Nested, Option(panel="Tables")] = Nested()


def test_one_more_setting_is_one_field() -> None:
    added = [setting for setting in settings_of(Added) if setting.path[0] not in RunRequest.model_fields]
    assert [setting.key for setting in added] == ["rate_limit", "careful", "nested.depth", "nested.inner"]
    rate, careful, depth = parameters_of(setting for setting in added if setting.option.is_offered)
    assert (rate.opts, rate.min, rate.max, rate.rich_help_panel) == (["-x", "--rate-limit"], 0, 2, "New")
    assert rate.help == "The rate \\[per second]."
    assert (careful.opts, careful.is_flag) == (["--no-careful"], True)
    assert (depth.opts, depth.rich_help_panel) == (["--depth"], "Tables")
    assert depth.help == "How deep. \\[default: 3]"
    typed = {"rate_limit": 0.0, "careful": True, "nested__depth": 5}
    assert values_of(added, typed) == {"rate_limit": 0.0, "careful": False, "nested": {"depth": 5}}
    assert values_of(added, {"rate_limit": None, "careful": False, "nested__depth": None}) == {}


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (("--role", "judge"), "--role 'judge' is not ROLE=MODEL, for example --role judge=mock/say?text=yes"),
        (("--set", "size"), "--set 'size' is not KEY=VALUE"),
        (("--agent-set", "=1"), "--agent-set '=1' is not KEY=VALUE"),
        (("--set", "size=[1"), "--set size: '[1' looks like JSON, but"),
        (("--workers", "0"), "--workers '0' is neither a number above 0 nor auto"),
        (("--run-seconds", "soon"), "--run-seconds 'soon' is no time above 0; say it as 90s, 15m or 2h"),
        (("--track", "wandb", "--no-track"), "--track wandb and --no-track contradict each other"),
        (("--build-network", "wifi"), "--build-network 'wifi' is no network of a build; say none or bridge"),
        (("--lane", "tram"), "command line: lane = 'tram': Input should be 'direct', 'litellm', 'openai' or 'tokens'"),
        (("--limit", "0"), "'--limit': Input should be greater than or equal to 1"),
        (("--max-cost", "0"), "limits.max_cost = 0.0: Input should be greater than 0"),
        (("--locked",), "there is no hub.lock here or in a folder above"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(
    typed: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_inside(tmp_path, monkeypatch) as hub:
        assert complaint in " ".join(hub("run", "arithmetic", *typed).refused().replace("│", " ").split())


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line, inside this process."""
    with hub_inside(tmp_path, monkeypatch) as call:
        yield call


def test_what_is_typed_wins_over_the_file_setting_by_setting(hub: Inside, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'environments = ["arithmetic"]\nlimit = 2\nconcurrency = 3\n[set]\nsize = 5\n'
        "[limits]\nmax_turns = 4\nmax_seconds = 50\n[deadlines]\nsetup = 7\n"
    )
    typed = ("--max-turns", "6", "--set", "size=8", "--model-timeout", "2m", "--skip", "0", "--no-track")
    assert hub("run", "--config", "run.toml", *typed, "-c", "1", "-o", "run", "-q").code == 0
    request = request_from_file(tmp_path / "run" / "resolved.json")
    assert (request["limit"], request["concurrency"]) == (2, 1)
    assert request["limits"]["max_turns"] == 6
    assert request["limits"]["max_seconds"] == 50
    assert (request["deadlines"]["setup"], request["deadlines"]["model_call"]) == (7, 120)
    assert (request["set"]["arithmetic.size"], request["track"]) == (8, [])


def test_help_of_all_commands_loads_no_settings() -> None:
    code = (
        "import sys\nfrom rollouthub.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert 'pydantic' not in sys.modules, 'hub --help loads pydantic'"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
