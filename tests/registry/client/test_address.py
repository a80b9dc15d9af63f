"""The one form of a registry's URL, and what is none."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, CredentialError
from rollouthub_registry.client.address import check_carries_token, folder_of, registry_url


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://Hub.Example/", "https://hub.example"),
        ("HTTPS://hub.example:443/a/", "https://hub.example/a"),
        ("http://hub.example:8800", "http://hub.example:8800"),
        ("http://[::1]:80/", "http://[::1]"),
        ("file:///srv/my%20hub/", "file:///srv/my%20hub"),
        ("file://localhost/srv", "file:///srv"),
    ],
)
def test_a_url_has_one_form(text: str, normal: str) -> None:
    assert registry_url(text) == normal


@pytest.mark.parametrize(
    "text",
    [
        "", "hub", "./hub", "hub.example", "ftp://hub", "https://", "https:///path", "https://h?x=1", "https://h#x",
        "https://h:port", "https://h/\x1b[31m", "https://h h", "file://other/srv", "file:srv", "file:///srv/../etc",
        "file:///srv/%2e%2e/etc", "file:///srv/%00", "https://h\\@other", "javascript:1", "https://" + "h" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_registry_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        registry_url(text)


def test_a_folder_is_told_how_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a folder is written file:///srv/hub"):
        registry_url("/srv/hub")
    with pytest.raises(ConfigError, match=r"a host is written https://hub\.example; a folder"):
        registry_url("hub.example")


@pytest.mark.parametrize(
    "text",
    ["http://me:geheim@h:port", "http://me:ge geheim@h", "me:geheim@h/x", "https://h?token=geheim", "https://h#geheim"],
)
def test_no_secret_of_a_url_is_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        registry_url(text)
    assert "geheim" not in str(refused.value)


def test_a_url_with_a_password_is_refused_and_the_password_not_repeated() -> None:
    with pytest.raises(ConfigError, match="hub login") as refused:
        registry_url("https://someone:geheim@hub.example/x")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://hub.example", "http://127.0.0.1.evil.example", "http://0.0.0.0"])
def test_a_token_does_not_travel_unencrypted(url: str) -> None:
    with pytest.raises(CredentialError, match="unencrypted"):
        check_carries_token(url)


@pytest.mark.parametrize("url", ["https://hub.example", "http://127.0.0.1:8800", "http://localhost", "http://[::1]:1"])
def test_a_token_travels_encrypted_or_within_this_machine(url: str) -> None:
    check_carries_token(url)


def test_a_file_url_is_a_folder() -> None:
    assert folder_of("file:///srv/my%20hub") == Path("/srv/my hub")
    assert folder_of("https://hub.example/srv") is None
