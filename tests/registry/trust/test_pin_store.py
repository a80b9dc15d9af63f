"""The trust store: what was pinned stays, whoever writes beside."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rollouthub.errors import UsageError
from rollouthub_registry.names import NameRefused, Release
from rollouthub_registry.trust.keys import Key
from rollouthub_registry.trust.pin_store import TrustStore, TrustStoreError
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.trust_error import KeyChanged, Replayed, SignatureRefused
from tests.registry.trust.statements import DIGEST, KEY, OTHER_DIGEST, STRANGER, WORDS, envelope


def test_the_first_install_pins_the_key_and_a_changed_one_is_refused_until_trusted(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "rollouthub")
    store.admit(envelope(), DIGEST, WORDS)
    assert store.pins().namespaces == {"acme": (KEY.id,)}
    before = store.file.read_bytes()
    newer = Release.parse("acme/words@1.3.0")
    with pytest.raises(KeyChanged):
        store.admit(envelope("1.3.0", key=STRANGER), DIGEST, newer)
    assert store.file.read_bytes() == before
    assert store.trust("acme", (STRANGER.id,)) == (KEY.id,)
    store.admit(envelope("1.3.0", key=STRANGER), DIGEST, newer)
    with pytest.raises(KeyChanged):
        store.admit(envelope("1.4.0"), DIGEST, Release.parse("acme/words@1.4.0"))


def test_a_pin_holds_for_all_packages_of_a_namespace_and_for_no_other(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.admit(envelope(), DIGEST, WORDS)
    with pytest.raises(KeyChanged):
        store.admit(envelope(package="acme/other", key=STRANGER), DIGEST, Release.parse("acme/other@1.2.0"))
    store.admit(envelope(package="lab/words", key=STRANGER), DIGEST, Release.parse("lab/words@1.2.0"))
    assert store.pins().namespaces == {"acme": (KEY.id,), "lab": (STRANGER.id,)}


def test_a_replayed_old_version_is_refused_and_the_highest_is_remembered(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.admit(envelope("2.0.0"), DIGEST, Release.parse("acme/words@2.0.0"))
    with pytest.raises(Replayed):
        store.admit(envelope("1.2.0"), DIGEST, WORDS)
    store.admit(envelope("1.2.0"), DIGEST, WORDS, is_exact=True)
    with pytest.raises(Replayed):
        store.admit(envelope("1.9.0"), DIGEST, Release.parse("acme/words@1.9.0"))
    assert list(store.pins().seen["acme/words"]) == ["2.0.0", "1.2.0"]


def test_a_version_signed_twice_with_other_bytes_is_refused(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.admit(envelope(), DIGEST, WORDS)
    store.admit(envelope(), DIGEST, WORDS)
    with pytest.raises(Replayed, match="a version never changes"):
        store.admit(envelope(digest=OTHER_DIGEST), OTHER_DIGEST, WORDS, is_exact=True)


def test_nothing_is_written_on_refusal(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "rollouthub")
    with pytest.raises(SignatureRefused):
        store.admit(envelope(), OTHER_DIGEST, WORDS)
    assert not store.file.exists()
    assert store.pins() == Pins()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"namespaces": {"acme": "x"}}', '{"schema_version": 2}', '{"seen": {"../x": {}}}']
)
def test_a_damaged_store_trusts_nothing_and_is_kept(content: str, tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.file.write_text(content)
    with pytest.raises(TrustStoreError, match="is damaged"):
        store.admit(envelope(), DIGEST, WORDS)
    assert store.file.read_text() == content


def test_many_who_install_at_once_lose_no_pin(tmp_path: Path) -> None:
    packages = [f"space{number}/words" for number in range(24)]

    def install(package: str) -> None:
        release = Release.parse(f"{package}@1.2.0")
        TrustStore(tmp_path).admit(envelope(package=package), DIGEST, release)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(install, packages))
    assert set(TrustStore(tmp_path).pins().seen) == set(packages)
    assert {file.name for file in tmp_path.iterdir()} <= {"trust.json", "trust.lock"}


def test_of_two_keys_that_claim_a_namespace_at_once_one_is_pinned(tmp_path: Path) -> None:
    keys = [Key.generate() for _ in range(8)]

    def claim(key: Key) -> bool:
        try:
            TrustStore(tmp_path).admit(envelope(key=key), DIGEST, WORDS)
        except KeyChanged:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, keys)) == 1


def test_a_forgotten_namespace_is_pinned_anew(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    store.admit(envelope(), DIGEST, WORDS)
    store.trust("acme", ())
    store.admit(envelope(key=STRANGER), DIGEST, WORDS)
    assert store.pins().namespaces == {"acme": (STRANGER.id,)}


def test_what_is_no_key_and_no_namespace_cannot_be_trusted(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    with pytest.raises(UsageError, match="no id of a key"):
        store.trust("acme", ("abc",))
    with pytest.raises(NameRefused):
        store.trust("Acme", (KEY.id,))
    assert not store.file.exists()
