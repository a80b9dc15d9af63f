"""`hub model`: what is refused before anything is started."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Hub, hub
from tests.cluster.standing_in import model_folder

__all__ = ["hub"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("up", "./gone"), "there is no model './gone'"),
        (("up", "small", "--command", "./no-vllm"), "'./no-vllm' is no program"),
        (("up", "small", "--", "--api-key", "sk-0123456789"), "set HOSTED_VLLM_API_KEY"),
        (("up", "small", "--engine", "sglnag"), "sglang"),
        (("up", "small", "--engine", "sglang", "--command", "./no-sglang"), "the path of the sglang executable"),
        (("up", "small", "--engine", "sglang", "--", "--api-key", "sk-0123456789"), "set SGLANG_API_KEY"),
        (("down", "small"), "no model that is up is named 'small'"),
        (("down",), "--all"),
    ],
)
def test_what_cannot_be_is_refused_at_once(hub: Hub, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    model_folder(tmp_path)
    refusal = hub("model", *arguments, XDG_STATE_HOME=str(tmp_path / "state")).refused()
    assert told in refusal
    assert "sk-0123456789" not in refusal
    assert not (tmp_path / "state" / "rollouthub" / "models" / "head.lock").exists()


def test_stopping_every_model_tells_in_json_which_they_were(hub: Hub, tmp_path: Path) -> None:
    done = hub("model", "stop", "--all", "--json", XDG_STATE_HOME=str(tmp_path / "state"))
    assert json.loads(done.out) == {"stopped": []}
