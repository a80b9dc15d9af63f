"""What the command line says of bad input and of a run's figures: short, of what was asked, and nothing twice."""

import socket
from pathlib import Path

import pytest

from rollouthub.authoring.rows.hugging_face import hugging_face_splits
from rollouthub.errors import ConfigError
from tests.cli.inside import hub_inside


def test_the_figures_as_json_name_who_played_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_inside(tmp_path, monkeypatch) as hub:
        said = hub("run", "arithmetic", "-m", "mock/solver", "--limit", "2", "-q", "--json").json
    assert (said["agent"], said["model"]) == ("tool_loop", "mock/solver")
    figures = {"tasks": 2, "rollouts": 2, "scored": 2, "mean_reward": 1.0, "pass_rate": 1.0}
    assert said["environments"] == {"arithmetic": figures}


def test_figures_that_say_the_same_are_shown_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_inside(tmp_path, monkeypatch) as hub:
        repeated = hub("run", "arithmetic", "--limit", "2", "--repeats", "2")
        quiet = hub("run", "arithmetic", "--limit", "2", "-q")
    assert "pass@k" in repeated.out
    assert "avg@k" not in repeated.out
    assert "No model was used" in repeated.out
    assert quiet.out == ""


def test_an_unknown_rollout_is_met_with_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_inside(tmp_path, monkeypatch) as hub:
        hub("run", "arithmetic", "--limit", "40", "-q", "-o", "sums")
        said = hub("show", "sums", "nosuch").refused()
    assert said.count("-0") == 3
    assert "more" not in said


def test_a_configuration_that_is_no_toml_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.yaml").write_text("model: mock/solver\n")
    with hub_inside(tmp_path, monkeypatch) as hub:
        assert "configurations are TOML" in hub("run", "--config", "x.yaml").refused()


def test_a_data_set_that_cannot_be_reached_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    datasets, constants = pytest.importorskip("datasets"), pytest.importorskip("huggingface_hub.constants")
    for module in (datasets.config, constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", module.HF_HUB_OFFLINE)  # put back when the test is over

    def nowhere(*_: object, **__: object) -> None:
        raise OSError("no network")

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(ConfigError, match="could not be fetched from Hugging Face"):
        hugging_face_splits("hf:no-such-lab/no-such-set")
    assert "Retrying" not in capfd.readouterr().err
