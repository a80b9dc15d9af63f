"""`hub.lock`: written by `hub lock` and `hub install`, held to by `hub install --locked`."""

import shutil
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.plugins.lock import read_lock, write_lock
from rollouthub_registry.install_flow.locked_install import Restoration, restore
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.project_lock import differences, lock_named
from rollouthub_registry.install_flow.user_folders import UserFolders
from tests.registry.install.wheels import write_wheel
from tests.registry.install_flow.machines import Machine, Shop, declared

WORDS = "lab/words@1.0.0"


def test_a_lock_is_written_kept_and_restored_on_another_machine(user: Machine, lab: Shop, tmp_path: Path) -> None:
    offer = lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    assert user.hub("lock", "lab/words", "arithmetic", "--json").json["environments"] == ["arithmetic", "lab/words"]
    lock = read_lock(user.project / "hub.lock")
    words, arithmetic = lock.find("lab/words"), lock.find("arithmetic")
    assert words is not None and arithmetic is not None
    assert (words.bundle, words.source, words.key_id) == (offer.bundle.digest, lab.url, lab.publisher.key_id)
    assert arithmetic.bundle is None and arithmetic.code is not None
    user.hub("lock", "--check").went_well()

    other = Machine(tmp_path / "other", user.warm)
    other.variables()
    shutil.copy(user.project / "hub.lock", other.project)
    lab.publish("lab/words", "1.1.0")
    done = other.hub("install", "--locked", "--json").json["environments"]
    assert [(each["version"], each["state"], each["is_new_key"]) for each in done] == [("1.0.0", "installed", True)]
    assert other.hub("install", "--locked", "--json").json["environments"][0]["state"] == "present"
    other.hub("lock", "--check").went_well()


def test_an_install_updates_the_lock_of_its_project(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    lab.publish("lab/letters")
    user.hub("lock", "arithmetic")
    user.hub("install", "lab/words", "--registry", lab.url, "--no-lock")
    assert [each.name for each in read_lock(user.project / "hub.lock").environments] == ["arithmetic"]
    assert user.hub("lock", "lab/words", "--check").refused("lab/words")
    user.hub("install", "lab/letters", "--registry", lab.url)
    names = [each.name for each in read_lock(user.project / "hub.lock").environments]
    assert names == ["arithmetic", "lab/letters"]
    lab.publish("lab/letters", "1.1.0")
    lab.publish("lab/words", "1.1.0")
    user.hub("upgrade")  # of what the lock does not name, it says nothing
    assert [each.version for each in read_lock(user.project / "hub.lock").environments][1:] == ["1.1.0"]
    assert len(read_lock(user.project / "hub.lock").environments) == 2


def test_a_lock_of_another_hub_is_told_refused_or_accepted(tmp_path: Path) -> None:
    place, file = (
        UserFolders.of({"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}, tmp_path),
        tmp_path / "hub.lock",
    )
    here = lock_named(["arithmetic"], file, place)
    write_lock(here.model_copy(update={"hub_version": "0.0.1", "contract": 2}), file)
    assert [str(each) for each in differences([], file, place)] == ["hub: contract is 1, the lock names 2"]
    told = list[str]()
    with pytest.raises(ConfigError, match="under contract 2"):
        lock_named(["arithmetic"], file, place)
    with pytest.raises(ConfigError, match="under contract 2"):
        run_async(restore, Restoration(file), place, ProgressReport(warn=told.append))
    write_lock(here.model_copy(update={"hub_version": "0.0.1"}), file)
    assert run_async(restore, Restoration(file), place, ProgressReport(warn=told.append)) == []
    assert len(told) == 1 and "was written by hub 0.0.1" in told[0]
    assert lock_named([], file, place) == read_lock(file) == here


def test_a_check_tells_what_differs(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    user.hub("lock")
    user.hub("remove", "lab/words")
    done = user.hub("lock", "--check")
    assert (done.code, done.out) == (1, "lab/words: version is not there, the lock names 1.0.0\n")


def test_a_yanked_version_is_installed_where_a_lock_names_it(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words", passed=False)
    user.hub("install", "lab/words", "--registry", lab.url, "--allow-failing-checks")
    user.hub("lock")
    user.hub("remove", "lab/words")
    lab.yank(WORDS, "it leaks answers")
    done = user.hub("install", "--locked")
    assert done.code == 0, done.err
    assert "was yanked (it leaks answers)" in done.err
    assert user.versions() == [WORDS]


def test_other_bytes_than_the_lock_names_are_refused(user: Machine, lab: Shop, tmp_path: Path) -> None:
    folder = declared(tmp_path / "words")
    user.hub("install", str(folder))
    user.hub("lock")
    user.hub("remove", "lab/words")
    (folder / "tasks.jsonl").write_text('{"prompt": "2 + 2?"}\n')
    before = user.files()
    user.hub("install", "--locked").refused("the lock names lab/words@1.0.0 with the bytes")
    assert user.files() == before


def test_a_lock_for_another_python_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    user.hub("lock")
    file = user.project / "hub.lock"
    file.write_text(file.read_text().replace('python = "3.', 'python = "2.'))
    user.hub("install", "--locked").refused("locked for Python 2.")


def test_a_lock_of_another_key_or_another_hub_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    user.hub("lock", "lab/words", "arithmetic")
    file = user.project / "hub.lock"
    text = file.read_text()
    file.write_text(text.replace(lab.publisher.key_id, "ab" * 32))
    user.hub("install", "--locked").refused("ab" * 32)
    user.hub("remove", "lab/words")
    user.hub("install", "--locked").refused("ab" * 32)
    file.write_text(text.replace('code = "sha256:', 'code = "sha256:00'))
    user.hub("install", "--locked").refused("arithmetic", "hub lock arithmetic")
    user.hub("install", "lab/wrods", "--locked").refused("did you mean 'lab/words'")
    assert user.versions() == []


def test_a_lock_holds_dependencies_to_their_hashes(user: Machine, tmp_path: Path) -> None:
    folder, links = declared(tmp_path / "words"), tmp_path / "links"
    manifest = folder / "env.toml"
    manifest.write_text(manifest.read_text().replace("[tasks]", 'requirements = ["tinydep>=1"]\n\n[tasks]'))
    write_wheel(links, "tinydep", "1.0.0")
    offline = {"UV_FIND_LINKS": str(links), "UV_DEFAULT_INDEX": (tmp_path / "no-index").as_uri()}
    user.hub("install", str(folder), **offline).went_well()
    user.hub("lock")
    user.hub("remove", "lab/words")
    write_wheel(links, "tinydep", "1.1.0")
    user.hub("install", "--locked", **offline).went_well()
    user.hub("lock", "--check").went_well()
    user.hub("remove", "lab/words")
    write_wheel(links, "tinydep", "1.0.0", files={"tinydep/more.py": "x = 1\n"})
    shutil.rmtree(user.home / "cache")
    before = user.files()
    user.hub("install", "--locked", **offline).refused("tinydep")
    assert user.files() == before


def test_without_a_lock_there_is_nothing_to_hold_to(user: Machine) -> None:
    user.hub("install", "--locked").refused("hub.lock")
    user.hub("install").refused("name what to install")
    user.hub("lock").refused("hub lock arithmetic")
    user.hub("lock", "lab/words").refused("lab/words", "hub install")
