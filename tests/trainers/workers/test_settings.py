"""The file that says what an adapter plays: what is wrong in it is told with its file and key."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.trainers.workers.worker_settings import read_settings


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("environments = [arithmetic]", r"play\.toml' cannot be read: .*line 1"),
        ("", r"play\.toml names no environment; write: environments = "),
        ('environment = ["arithmetic"]', r"play\.toml: no setting is named 'environment'; did you mean 'environments'"),
        ('environments = ["a"]\nconcurrency = "many"', r"play\.toml: concurrency = 'many': .*valid integer"),
        ('environments = ["a"]\n[training]\ntool_parsr = "hermes"', r"'tool_parsr'; did you mean 'tool_parser'\?"),
        ('environments = ["a"]\n[training]\nreplays = -1', r"play\.toml: \[training\] .*replays = -1: .*greater"),
        ('environments = ["a"]\ntraining = 3', r"play\.toml: \[training\] does not hold: 3: .*dictionary"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_file_and_key(
    written: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "play.toml").write_text(written)
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(tmp_path / "play.toml"))
    with pytest.raises(ConfigError, match=said):
        read_settings()


def test_a_trainer_that_was_told_nothing_is_told_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLOUTHUB_TRAINING", raising=False)
    with pytest.raises(ConfigError, match="let ROLLOUTHUB_TRAINING name a TOML file"):
        read_settings()
