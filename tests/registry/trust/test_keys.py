"""Keys: made on demand, for their owner's eyes alone."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rollouthub.errors import CredentialError
from rollouthub_registry.trust.keys import Key, config_folder, load_key


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "rollouthub" / "keys"
    key = load_key(folder)
    assert load_key(folder).id == key.id
    assert (folder / "default.pem").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in folder.iterdir()] == ["default.pem"]
    assert load_key(folder, "work").id != key.id


def test_those_who_make_a_key_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len({key.id for key in pool.map(load_key, [tmp_path] * 16)}) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_key(tmp_path)
    (tmp_path / "default.pem").chmod(0o640)
    with pytest.raises(CredentialError, match="can be read by others"):
        load_key(tmp_path)


def test_a_link_is_not_followed_to_a_key(tmp_path: Path) -> None:
    load_key(tmp_path / "elsewhere")
    (tmp_path / "default.pem").symlink_to(tmp_path / "elsewhere" / "default.pem")
    with pytest.raises(CredentialError, match="neither read nor made"):
        load_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a key, but a secret", "another"])
def test_what_is_no_ed25519_key_is_refused_without_showing_it(content: bytes | str, tmp_path: Path) -> None:
    other = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "default.pem").write_bytes(content if isinstance(content, bytes) else other)
    (tmp_path / "default.pem").chmod(0o600)
    with pytest.raises(CredentialError) as refused:
        load_key(tmp_path)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "A", "a" * 61])
def test_odd_names_of_keys_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match="cannot be named"):
        load_key(tmp_path, name)


def test_a_key_shows_nothing_but_its_id() -> None:
    key = Key.generate()
    assert repr(key) == str(key) == f"Key(id={key.id!r})"
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(key)


def test_settings_lie_where_the_user_wants_them() -> None:
    assert config_folder({"XDG_CONFIG_HOME": "/cfg"}) == Path("/cfg/rollouthub")
    assert config_folder({"HOME": "/home/a", "XDG_CONFIG_HOME": "relative"}) == Path("/home/a/.config/rollouthub")
