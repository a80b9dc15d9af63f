"""`hub.lock`: what is written is read again, and whatever does not hold is told."""

from importlib.metadata import version
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.lock import (
    Lock,
    LockedDependency,
    LockedEnvironment,
    check_contract,
    nearest_lock,
    read_lock,
    remark_on_hub,
    write_lock,
)

SUMS = LockedEnvironment(
    name="lab/sums",
    version="1.2.0",
    bundle="sha256:" + "a" * 64,
    source="https://example.org/registry",
    key_id="b" * 64,
    python="3.11",
    images=("debian@sha256:" + "c" * 64,),
    dependencies=(
        LockedDependency(name="zlib-ng", version="2.0", hashes=("sha256:" + "d" * 64, "sha256:" + "e" * 64)),
        LockedDependency(name="aiohttp", version="3.12.1", hashes=("sha256:" + "f" * 64,)),
    ),
)


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = Lock(hub_version="0.1.0", environments=(SUMS, LockedEnvironment(name="arithmetic", version="0.1.0")))
    write_lock(lock, tmp_path / "hub.lock")
    assert read_lock(tmp_path / "hub.lock") == lock
    assert [file.name for file in tmp_path.iterdir()] == ["hub.lock"]


def test_the_digest_of_dependencies_is_of_what_they_are_and_not_of_their_order() -> None:
    turned = SUMS.model_copy(
        update={
            "dependencies": tuple(
                each.model_copy(update={"hashes": each.hashes[::-1]}) for each in SUMS.dependencies[::-1]
            )
        }
    )
    assert turned.dependencies_digest == SUMS.dependencies_digest
    for change in ({"name": "other"}, {"version": "2.1"}, {"hashes": ("sha256:" + "0" * 64,)}):
        changed = (SUMS.dependencies[0].model_copy(update=change), SUMS.dependencies[1])
        assert SUMS.model_copy(update={"dependencies": changed}).dependencies_digest != SUMS.dependencies_digest
    assert SUMS.model_copy(update={"dependencies": ()}).dependencies_digest is None


def test_the_hub_that_wrote_a_lock_is_told_where_it_is_another(tmp_path: Path) -> None:
    file, here = tmp_path / "hub.lock", version("rollouthub")
    file.write_text('hub_version = "0.0.1"\n')
    other = read_lock(file)
    check_contract(other, file)
    remark = remark_on_hub(other, file)
    assert remark is not None and f"written by hub 0.0.1, and this is hub {here}" in remark
    assert remark_on_hub(other.model_copy(update={"hub_version": here}), file) is None


def test_a_lock_of_another_contract_is_not_held_to(tmp_path: Path) -> None:
    file = tmp_path / "hub.lock"
    file.write_text('hub_version = "9.0.0"\ncontract = 2\n')
    with pytest.raises(ConfigError, match=r"by hub 9\.0\.0 under contract 2, .* speaks contract 1"):
        check_contract(read_lock(file), file)


def test_an_environment_is_put_in_the_place_of_its_namesake() -> None:
    newer = SUMS.model_copy(update={"version": "1.3.0"})
    other = LockedEnvironment(name="lab/a", version="0.1.0")
    lock = Lock(hub_version="0.1.0", environments=(SUMS,)).with_environments([newer, other])
    assert lock.environments == (other, newer)
    assert lock.find("lab/sums") == newer
    assert lock.find("lab/other") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('schema_version = 2\nhub_version = "9"', "of a newer hub: schema_version"),
        ('hub_version = "1"\nenvironment = []', "environment: Extra inputs are not permitted"),
        ("[[environments]", "cannot be read"),
        ("", "hub_version: Field required"),
        ('hub_version = "1"' + 2 * '\n[[environments]]\nname = "x"\nversion = "1"', "'x' is there twice"),
    ],
)
def test_a_lock_that_does_not_hold_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "hub.lock"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        read_lock(file)
    assert str(file) in str(refused.value)


def test_a_missing_lock_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hub lock"):
        read_lock(tmp_path / "hub.lock")


def test_the_nearest_lock_is_the_projects_own(tmp_path: Path) -> None:
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    (tmp_path / "project" / "hub.lock").touch()
    (tmp_path / "hub.lock").touch()
    assert nearest_lock(below) == tmp_path / "project" / "hub.lock"
    assert nearest_lock(tmp_path) == tmp_path / "hub.lock"


def test_a_lock_of_before_the_hubs_name_is_found_where_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "envhub.lock").touch()
    assert nearest_lock(tmp_path) == tmp_path / "envhub.lock"
    (tmp_path / "hub.lock").touch()
    assert nearest_lock(tmp_path) == tmp_path / "hub.lock"


def test_a_lock_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        write_lock(Lock(hub_version="0.1.0"), tmp_path / "a-file" / "hub.lock")
    file = tmp_path / "gone" / "hub.lock"
    with pytest.raises(ConfigError, match="cannot be written"):
        write_lock(Lock(hub_version="0.1.0"), file)
