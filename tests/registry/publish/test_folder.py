"""What `hub publish` takes for the folder of an environment."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub_registry.publish.folder import folder_of
from tests.registry.publish.environments import write_environment


def test_a_folder_its_manifest_and_a_shipped_name_are_taken(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "words")
    assert folder_of(str(folder)) == folder_of(str(folder / "env.toml")) == folder.resolve()
    assert (folder_of("arithmetic") / "env.toml").is_file()


def test_what_is_none_is_told_with_what_it_may_have_meant(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'arithmetic'"):
        folder_of("aritmetic")
    for target, why in ((tmp_path, r"holds no env\.toml"), (tmp_path / "no", "no folder"), (Path(__file__), "hub new")):
        with pytest.raises(ConfigError, match=why):
            folder_of(str(target))
