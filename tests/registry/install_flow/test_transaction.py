"""`hub install`, `hub upgrade`, `hub remove`, `hub list`: what a user sees of them."""

import json
import shutil
from pathlib import Path

from rollouthub_registry.bundle.bundle import build_bundle
from tests.registry.install.wheels import write_wheel
from tests.registry.install_flow.machines import Machine, Shop, declared, offer_of

WORDS = "lab/words@1.0.0"


def test_a_package_is_installed_and_its_key_is_told_once(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    first = user.hub("install", "lab/words", "--registry", lab.url)
    assert first.code == 0, first.err
    for word in (WORDS, lab.url, lab.publisher.key_id, "the first key of 'lab'", "MIT", "hub run lab/words"):
        assert word in first.out
    lab.publish("lab/letters")
    second = user.hub("install", "lab/letters", "--registry", lab.url, "--json").json["environments"][0]
    assert (second["state"], second["is_new_key"], second["key_id"]) == ("installed", False, lab.publisher.key_id)
    row = user.hub("list", "--json").json["installed"][1]
    assert (row["name"], row["source"], row["key_id"]) == ("lab/words", lab.url, lab.publisher.key_id)
    shown = user.hub("list").out
    assert "lab/words" in shown and lab.publisher.key_id[:12] in shown and "arithmetic" in shown


def test_a_quiet_installation_prints_nothing(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    for words in (("install", "lab/words", "--registry", lab.url), ("upgrade",)):
        done = user.hub(*words, "-q")
        assert (done.code, done.out, done.err) == (0, "", "")


def test_what_is_there_is_told_without_asking_anyone(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    shutil.rmtree(lab.root)
    before = user.files()
    for words in ("lab/words", WORDS, "lab/words@^1"):
        assert user.hub("install", words, "--registry", lab.url, "--json").json["environments"][0]["state"] == "present"
    assert user.files() == before
    user.hub("install", "lab/words@latest", "--registry", lab.url).refused(str(lab.root))


def test_of_several_none_is_installed_where_one_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    lab.publish("lab/letters")
    user.variables()
    before = user.files()
    user.hub("install", "lab/words", "lab/letters", "lab/wrods", "--registry", lab.url).refused(
        "did you mean 'lab/words'?"
    )
    assert user.files() == before
    done = user.hub("install", "lab/words", "lab/letters", "--registry", lab.url, "--json").json["environments"]
    assert [each["name"] for each in done] == ["lab/words", "lab/letters"]


def test_a_rehearsal_says_what_would_be_and_writes_nothing(user: Machine, lab: Shop) -> None:
    offer = lab.publish("lab/words")
    user.variables()
    before = user.files()
    done = user.hub("install", "lab/words", "--registry", lab.url, "--dry-run", "--json").json["environments"][0]
    assert (done["state"], done["bundle"], done["is_new_key"]) == ("planned", offer.bundle.digest, True)
    assert user.files() == before


def test_secrets_that_are_not_set_are_named(user: Machine, tmp_path: Path) -> None:
    folder = declared(tmp_path / "words", more='secrets = ["WORDS_KEY", "OTHER_KEY"]')
    done = user.hub("install", str(folder), OTHER_KEY="x")
    assert "WORDS_KEY, OTHER_KEY (not set: WORDS_KEY)" in done.out
    assert "signed by no key" in done.out


def test_a_folder_is_installed_and_its_bytes_change_only_when_told(user: Machine, tmp_path: Path) -> None:
    folder = declared(tmp_path / "words")
    done = user.hub("install", str(folder), "--json").json["environments"][0]
    assert (done["source"], done["key_id"]) == (f"directory {folder}", None)
    (folder / "tasks.jsonl").write_text('{"prompt": "2 + 2?"}\n')
    before = user.files()
    user.hub("install", str(folder)).refused("with other bytes", "--reinstall")
    assert user.files() == before
    again = user.hub("install", str(folder), "--reinstall", "--json").json["environments"][0]
    assert again["bundle"] != done["bundle"]


def test_a_folder_does_not_pass_for_a_signed_version(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    folder = declared(tmp_path / "words")
    user.hub("install", str(folder), "--reinstall").refused("a version never changes")
    assert user.hub("list", "--json").json["installed"][0]["source"] == lab.url


def test_a_package_does_not_take_the_place_of_a_folder_by_itself(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words", "2.0.0")
    user.hub("install", str(declared(tmp_path / "words")))
    user.hub("install", "lab/words", ROLLOUTHUB_REGISTRY=lab.url).refused(
        "installed from directory", f"--registry {lab.url}"
    )


def test_a_name_that_is_a_folder_too_is_asked_about(user: Machine) -> None:
    user.variables()
    declared(user.project / "lab" / "words")
    user.hub("install", "lab/words").refused("./lab/words", "lab/words@latest")
    user.hub("install", "./lab/words").went_well()


def test_a_wheel_is_built_only_when_told(user: Machine, tmp_path: Path) -> None:
    folder = declared(tmp_path / "words")
    (folder / "pyproject.toml").write_text('[project]\nname = "words"\nversion = "1.0.0"\n')
    user.hub("install", str(folder)).refused("--build", "build backend")
    write_wheel(folder / "wheel", "words", "1.0.0")
    user.hub("install", str(folder), "--dry-run").went_well()


def test_an_archive_needs_its_statement(user: Machine, lab: Shop, tmp_path: Path) -> None:
    bundle = build_bundle(declared(tmp_path / "words"), tmp_path)
    user.hub("install", str(bundle.path)).refused("statement.json", "--unsigned")
    statement = bundle.path.with_name(f"{bundle.path.name}.statement.json")
    statement.write_bytes(offer_of(lab.publisher, bundle).envelope)
    done = user.hub("install", str(bundle.path), "--json").json["environments"][0]
    assert (done["key_id"], done["is_new_key"], done["source"]) == (
        lab.publisher.key_id,
        True,
        f"archive {bundle.path}",
    )


def test_an_unsigned_archive_is_installed_when_told_but_a_bad_statement_never(
    user: Machine, lab: Shop, tmp_path: Path
) -> None:
    bundle = build_bundle(declared(tmp_path / "words"), tmp_path)
    statement = bundle.path.with_name(f"{bundle.path.name}.statement.json")
    statement.write_bytes(lab.publisher.offer("lab/words").envelope)
    user.hub("install", str(bundle.path), "--unsigned").refused("not the one that was signed")
    statement.unlink()
    assert user.hub("install", str(bundle.path), "--unsigned", "--json").json["environments"][0]["key_id"] is None


def test_an_upgrade_comes_from_the_same_source_and_keeps_what_was_there(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    assert user.hub("upgrade", "--json").json["environments"][0]["state"] == "present"
    lab.publish("lab/words", "1.1.0")
    lab.publish("lab/words", "2.0.0-rc.1")
    planned = user.hub("upgrade", "lab/words", "--dry-run", "--json").json["environments"][0]
    assert (planned["state"], planned["version"]) == ("planned", "1.1.0")
    said = user.hub("upgrade").out
    assert "lab/words@1.1.0" in said and f"hub remove {WORDS}" in said
    assert user.versions() == [WORDS, "lab/words@1.1.0"]


def test_an_upgrade_goes_on_where_one_of_several_is_refused(user: Machine, lab: Shop) -> None:
    for name in ("lab/letters", "lab/words"):
        lab.publish(name)
    user.hub("install", "lab/letters", "lab/words", "--registry", lab.url)
    lab.publish("lab/letters", "1.1.0", passed=False)
    lab.publish("lab/words", "1.1.0")
    user.hub("upgrade").refused("failed its checks")
    assert user.versions() == ["lab/letters@1.0.0", WORDS, "lab/words@1.1.0"]
    user.hub("upgrade", "lab/other").refused("installed environment", "lab/letters")


def test_an_upgrade_stays_within_its_range_and_never_goes_back(user: Machine, lab: Shop) -> None:
    for version in ("1.0.0", "2.0.0"):
        lab.publish("lab/words", version)
    user.hub("install", "lab/words@2.0.0", "--registry", lab.url)
    user.hub("upgrade", "lab/words@^1").refused("lab/words@2.0.0 is installed", "`hub install lab/words@1.0.0`")
    user.hub("install", WORDS, "--registry", lab.url)
    lab.publish("lab/words", "1.1.0")
    planned = user.hub("upgrade", "lab/words@^1", "--dry-run", "--json").json["environments"][0]
    assert (planned["state"], planned["version"], planned["replaced"]) == ("planned", "1.1.0", "1.0.0")


def test_what_is_not_installed_is_not_upgraded(user: Machine) -> None:
    assert "nothing is installed" in user.hub("upgrade").err
    user.hub("upgrade", "lab/words").refused("no installed environment is named 'lab/words'", "Nothing is installed")
    user.hub("uninstall", "arithmetic").refused("comes with the hub: there is nothing to remove")


def test_a_name_too_long_for_a_file_is_refused_in_words(user: Machine) -> None:
    user.hub("install", f"./{'a' * 5000}").refused("no file can be named", "characters are too many")


def test_remove_wants_to_know_which_version(user: Machine, lab: Shop) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        lab.publish("lab/words", version)
        user.hub("install", f"lab/words@{version}", "--registry", lab.url)
    user.hub("remove", "lab/words").refused("1.0.0, 1.1.0, 1.2.0", "--all-versions")
    user.hub("remove", "lab/words@3.0.0").refused("1.0.0, 1.1.0, 1.2.0")
    user.hub("remove", "lab/wrods").refused("did you mean 'lab/words'")
    assert user.hub("remove", "lab/words@1.1.0").out == "removed lab/words@1.1.0\n"
    assert user.versions() == [WORDS, "lab/words@1.2.0"]
    removed = json.loads(user.hub("remove", "lab/words", "--all-versions", "--json").out)["removed"]
    assert removed == [WORDS, "lab/words@1.2.0"]
    assert list(user.installed.iterdir()) == [user.installed / ".lock"]


def test_a_damaged_installation_is_named_and_hides_no_other(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    lab.publish("lab/letters")
    user.hub("install", "lab/words", "lab/letters", "--registry", lab.url)
    (damaged,) = user.folder.glob("**/lab/words/1.0.0/installed.json")
    damaged.write_text("{")
    shown = user.hub("list")
    assert shown.code == 1 and "lab/letters" in shown.out and "hub remove lab/words@1.0.0" in shown.err
    listed = user.hub("list", "--json")
    said = json.loads(listed.out)
    assert listed.code == 1 and [each["name"] for each in said["installed"]] == ["lab/letters"]
    assert [WORDS in each for each in said["damaged"]] == [True]
    lab.publish("lab/letters", "1.1.0")
    upgraded = user.hub("upgrade")
    assert upgraded.code == 2 and "lab/letters@1.1.0" in upgraded.out and WORDS in upgraded.err
    user.hub("upgrade", "lab/leters").refused("did you mean 'lab/letters'")
    user.hub("lock").refused(WORDS)


def test_a_damaged_installation_is_mended_by_installing_it_anew(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    (damaged,) = user.folder.glob("**/lab/words/1.0.0/installed.json")
    damaged.write_text("{")
    user.hub("install", WORDS, "--registry", lab.url).refused("--reinstall` puts it right")
    assert user.hub("install", WORDS, "--registry", lab.url, "--reinstall").code == 0
    assert [each["name"] for each in user.hub("list", "--json").json["installed"]] == ["lab/words"]


def test_a_damaged_version_keeps_no_other_version_away(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url)
    (damaged,) = user.folder.glob("**/lab/words/1.0.0/installed.json")
    damaged.write_text("{")
    lab.publish("lab/words", version="1.1.0")
    installed = user.hub("install", "lab/words@1.1.0", "--registry", lab.url, "--json").json["environments"][0]
    assert (installed["state"], installed["version"]) == ("installed", "1.1.0")
