"""A run that is held to a lock plays no other installation than the lock names."""

from pathlib import Path

import pytest

from rollouthub.engine.lock_check import check_installed, held_lock
from rollouthub.errors import ConfigError
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import Lock, LockedDependency, LockedEnvironment, write_lock

LOCKED = LockedEnvironment(
    name="lab/sums",
    version="1.2.0",
    bundle="sha256:" + "a" * 64,
    source="https://hub.example.org",
    key_id="b" * 64,
    python="3.11",
)
LOCK = Lock(hub_version="0.1.0", environments=(LOCKED,))
MORE = LockedDependency(name="dep", version="1.0", hashes=("sha256:" + "c" * 64,))


def installed(**changes: object) -> Installation:
    """What is installed, with something else than the lock names."""
    here = LOCKED.model_copy(update=changes)
    return Installation(here, "Sums.", Path("env.toml"), Path("python"), is_class=False)


def test_a_run_is_warned_of_a_lock_of_another_hub_and_refuses_another_contract(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "hub.lock"
    write_lock(LOCK.model_copy(update={"hub_version": "0.0.1"}), file)
    assert held_lock(file).find("lab/sums") == LOCKED
    assert "was written by hub 0.0.1" in caplog.text
    write_lock(LOCK.model_copy(update={"contract": 2}), file)
    with pytest.raises(ConfigError, match="under contract 2"):
        held_lock(file)


def test_what_the_lock_names_is_played_wherever_it_came_from() -> None:
    check_installed(installed(), "lab/sums@1.2.0", LOCK)
    check_installed(installed(source="file:///mirror"), "lab/sums@1.2.0", LOCK)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("bundle", {"bundle": "sha256:" + "0" * 64}),
        ("list of dependencies", {"dependencies": (MORE,)}),
        ("Python", {"python": "3.12"}),
        ("signer", {"key_id": "0" * 64}),
        ("signer", {"key_id": None}),
    ],
)
def test_what_differs_is_refused_by_name(what: str, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"another {what} than the lock names .*hub install --locked"):
        check_installed(installed(**changes), "lab/sums@1.2.0", LOCK)


def test_what_is_installed_is_not_what_was_locked_in_its_authors_folder() -> None:
    lock = Lock(hub_version="0.1.0", environments=(LockedEnvironment(name="lab/sums", version="1.2.0"),))
    with pytest.raises(ConfigError, match="from its author's folder, and here it is installed"):
        check_installed(installed(), "lab/sums", lock)
    check_installed(None, "./sums", lock)
