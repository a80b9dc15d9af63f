"""Base URLs in their many forms."""

import pytest

from rollouthub.errors import ConfigError
from rollouthub.models.address import is_loopback, normal_base_url


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        (" http://127.0.0.1:8000/v1/ ", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("https://host/api/v3", "https://host/api/v3"),
        ("http://[::1]:80", "http://[::1]/v1"),
    ],
)
def test_every_form_becomes_one(given: str, normal: str) -> None:
    assert normal_base_url(given) == normal


@pytest.mark.parametrize(
    "given",
    ["", "127.0.0.1:8000", "localhost:8000/v1", "ftp://host/v1", "http://", "http://h:99999", "http://h/v1?a=b"],
)
def test_what_is_no_base_url_is_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        normal_base_url(given)


@pytest.mark.parametrize("given", ["http://me:hush-hush@host/v1", "http://me:hush-hush@host:port/v1"])
def test_a_password_in_a_url_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        normal_base_url(given)
    assert "hush-hush" not in str(caught.value)


def test_loopback_is_this_machine() -> None:
    assert all(is_loopback(f"http://{host}/v1") for host in ("localhost", "127.0.0.1:8000", "[::1]:1", "127.9.9.9"))
    assert not any(
        is_loopback(f"http://{host}/v1")
        for host in ("api.openai.com", "127.0.0.1.example.org", "127.example", "0.0.0.0")
    )
