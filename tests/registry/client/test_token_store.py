"""Tokens are kept from everyone but the registry they are for."""

import json
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, CredentialError
from rollouthub_registry.client.token_store import forget_token, keep_token, token_for

HUB, OTHER, TOKEN = "https://hub.example", "https://other.example", "rollouthub_secret"


def test_a_token_is_for_one_registry_alone(tmp_path: Path) -> None:
    keep_token(HUB + "/", TOKEN, tmp_path)
    assert token_for("HTTPS://Hub.Example:443", tmp_path, {}) == TOKEN
    for url in (OTHER, "http://hub.example", HUB + ":8443", HUB + "/more", HUB + ".evil.example"):
        assert token_for(url, tmp_path, {}) is None


def test_a_token_is_forgotten(tmp_path: Path) -> None:
    assert not forget_token(HUB, tmp_path)
    keep_token(HUB, TOKEN, tmp_path)
    keep_token(OTHER, "another", tmp_path)
    assert forget_token(HUB, tmp_path)
    assert [token_for(url, tmp_path, {}) for url in (HUB, OTHER)] == [None, "another"]
    assert TOKEN not in (tmp_path / "tokens.json").read_text()


def test_only_its_owner_can_read_a_token(tmp_path: Path) -> None:
    keep_token(HUB, TOKEN, tmp_path)
    file = tmp_path / "tokens.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(CredentialError, match=r"can be read by others.*chmod 600"):
        token_for(HUB, tmp_path, {})
    with pytest.raises(CredentialError, match="can be read by others"):
        keep_token(OTHER, TOKEN, tmp_path)


def test_tokens_are_not_read_through_a_link(tmp_path: Path) -> None:
    keep_token(HUB, TOKEN, tmp_path / "elsewhere")
    (tmp_path / "tokens.json").symlink_to(tmp_path / "elsewhere" / "tokens.json")
    with pytest.raises(CredentialError, match="cannot be read"):
        token_for(HUB, tmp_path, {})


@pytest.mark.parametrize("content", ["{", '{"tokens": ["SECRET"]}', '{"schema_version": 2, "tokens": {"a": "SECRET"}}'])
def test_a_damaged_file_is_refused_and_not_repeated(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(CredentialError, match="damaged") as refused:
        token_for(HUB, tmp_path, {})
    assert "SECRET" not in str(refused.value)


def test_a_token_of_the_environment_is_for_the_registry_of_the_environment(tmp_path: Path) -> None:
    keep_token(OTHER, "kept", tmp_path)
    environ = {"ROLLOUTHUB_REGISTRY": HUB, "ROLLOUTHUB_REGISTRY_TOKEN": TOKEN}
    assert token_for(HUB, tmp_path, environ) == TOKEN
    assert token_for(OTHER, tmp_path, environ) == "kept"
    with pytest.raises(CredentialError, match="not for which registry") as refused:
        token_for(HUB, tmp_path, {"ROLLOUTHUB_REGISTRY_TOKEN": TOKEN})
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("text", ["", "two words", "line\nfeed", "a\x1b[31m", "x" * 501, "gehéim"])
def test_what_cannot_be_a_token_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(CredentialError, match="is no token") as refused:
        keep_token(HUB, text, tmp_path)
    assert not text or text not in str(refused.value)
    assert not (tmp_path / "tokens.json").exists()


def test_a_folder_is_asked_without_a_token(tmp_path: Path) -> None:
    assert token_for("file:///srv/hub", tmp_path, {"ROLLOUTHUB_REGISTRY_TOKEN": TOKEN}) is None


def test_a_token_is_kept_for_no_url_with_a_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds a user or a password"):
        keep_token("https://someone:geheim@hub.example", TOKEN, tmp_path)


def test_the_file_says_which_token_is_for_whom(tmp_path: Path) -> None:
    keep_token(HUB, TOKEN, tmp_path)
    assert json.loads((tmp_path / "tokens.json").read_text()) == {"schema_version": 1, "tokens": {HUB: TOKEN}}
