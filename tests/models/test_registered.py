"""Servers that `hub serve model` keeps are found by their model's name, unless another server is named."""

import stat
import time
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.registered import (
    Engine,
    Registration,
    ServerRow,
    found_servers,
    prepare_folder,
    read_registration,
    registration_path,
    registry_folder,
    remove_registration,
    write_registration,
)
from rollouthub.models.resolve import addressed

MODEL = ModelConfig(name="hosted_vllm/org/small")


def credentials(home: Path, **more: str) -> Credentials:
    """An environment whose state is in a folder."""
    return Credentials({"XDG_STATE_HOME": str(home), **more})


def register(home: Path, *rows: ServerRow, written: float | None = None, engine: Engine = "vllm") -> Path:
    """Write a registration; its file."""
    folder = registry_folder(credentials(home).get)
    prepare_folder(folder)
    now = time.time() if written is None else written
    kept = Registration(model="org/small", engine=engine, source="org/small", cluster="none", servers=rows, written=now)
    write_registration(folder, kept)
    return registration_path(folder, "org/small")


UP = ServerRow(number=0, state="healthy", base_url="http://127.0.0.1:1001/v1")
BACK_SOON = ServerRow(number=1, state="restarting", base_url="http://127.0.0.1:1002/v1")
GONE = ServerRow(number=2, state="failed", base_url="http://127.0.0.1:1003/v1")


def test_a_model_that_is_up_needs_no_address(tmp_path: Path) -> None:
    register(tmp_path, BACK_SOON, UP, GONE)
    found = addressed(MODEL, credentials(tmp_path))
    assert found.base_url == UP.base_url
    assert found.replicas == (BACK_SOON.base_url,)


def test_a_model_of_sglang_is_found_by_its_own_name_and_the_other_is_said(tmp_path: Path) -> None:
    register(tmp_path, UP, engine="sglang")
    mine = ModelConfig(name="sglang/org/small")
    assert addressed(mine, credentials(tmp_path)).base_url == UP.base_url
    elsewhere = "http://10.0.0.1:30000/v1"
    assert addressed(mine, credentials(tmp_path, SGLANG_API_BASE=elsewhere)).base_url == elsewhere
    with pytest.raises(ConfigError, match=r"--engine sglang`; did you mean 'sglang/org/small'"):
        addressed(MODEL, credentials(tmp_path))


def test_a_server_that_is_named_wins(tmp_path: Path) -> None:
    register(tmp_path, UP)
    elsewhere = "http://10.0.0.1:8000/v1"
    assert addressed(MODEL, credentials(tmp_path, HOSTED_VLLM_API_BASE=elsewhere)).base_url == elsewhere
    assert addressed(MODEL.model_copy(update={"base_url": elsewhere}), credentials(tmp_path)).base_url == elsewhere


def test_other_models_are_not_asked_there(tmp_path: Path) -> None:
    register(tmp_path, UP)
    for name in ("hosted_vllm/small", "openai/org/small"):
        assert addressed(ModelConfig(name=name), credentials(tmp_path)).base_url is None


def test_a_model_none_of_whose_servers_is_up_says_so(tmp_path: Path) -> None:
    register(tmp_path, BACK_SOON, GONE)
    with pytest.raises(ConfigError, match="1 restarting, 2 failed"):
        addressed(MODEL, credentials(tmp_path))


def test_a_registration_nobody_keeps_says_so(tmp_path: Path) -> None:
    register(tmp_path, UP, written=time.time() - 600)
    with pytest.raises(ConfigError, match="hub model stop org/small"):
        addressed(MODEL, credentials(tmp_path))


def test_it_is_told_where_a_model_is_asked(tmp_path: Path) -> None:
    register(tmp_path, UP, BACK_SOON)
    judge = ModelConfig(name="mock/solver")
    (line,) = found_servers((MODEL, judge), credentials(tmp_path).get)
    assert "2 servers" in line


def test_a_registration_is_its_users_alone(tmp_path: Path) -> None:
    path = register(tmp_path, UP)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_no_registration_is_none(tmp_path: Path) -> None:
    path = register(tmp_path, UP)
    path.write_text('{"model": "org/small", "later": 1}')
    assert read_registration(path) is None
    remove_registration(path.parent, "org/small")
    remove_registration(path.parent, "org/small")
    assert not path.exists()


def test_no_models_name_leaves_the_folder(tmp_path: Path) -> None:
    assert registration_path(tmp_path, "../../etc/passwd").parent == tmp_path
