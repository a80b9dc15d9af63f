"""A name that is no path means what is registered or published, never what another user put into the working folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollouthub.authoring.rows import RowSource
from rollouthub.cluster.models.fleet import find_source
from rollouthub.errors import ConfigError
from rollouthub.plugins.environments import find_environment
from rollouthub_registry.scaffold.package import make_package

NOBODY = 65534


def rows(name: str) -> object:
    pytest.importorskip("datasets", reason="datasets is not installed")
    return RowSource(f"hf:{name}").splits()


FINDERS: tuple[Callable[[str], object], ...] = (find_environment, rows, find_source)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("find", "owned"),
    [(find_environment, "env.toml"), *((each, owned) for each in FINDERS for owned in (".", ".."))],
)
def test_what_another_user_put_there_is_taken_only_for_a_path(
    find: Callable[[str], object], owned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thing = Path("lab/thing")
    thing.parent.mkdir()
    if find is find_environment:
        make_package("lab/thing", thing, is_server=True)
    else:
        thing.mkdir()
        (thing / ("config.json" if find is find_source else "train.jsonl")).write_text('{"problem": "1+1"}\n')
    assert find("lab/thing")
    os.chown(thing / owned, NOBODY, -1)
    with pytest.raises(ConfigError, match=rf"'lab/thing' is .* that user {NOBODY} owns.*; write \./lab/thing if that"):
        find("lab/thing")
    assert find("./lab/thing")
    assert find(str(thing.absolute()))
