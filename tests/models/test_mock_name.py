"""The grammar of mock models' names."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.models.mock.mock_name import MockName, parse_mock_name


def test_a_kind_alone_is_instant_and_never_fails() -> None:
    assert parse_mock_name("solver") == MockName("solver")


def test_every_key_is_read() -> None:
    name = "solver?latency=0.1..0.5&fail=0.2&ratelimit=0.1&retry_after=0&accuracy=0.7&context=99&seed=4"
    assert parse_mock_name(name) == MockName("solver", (0.1, 0.5), 0.2, 0.1, 0.0, 0.7, 99, 4)


def test_text_is_percent_decoded_and_a_plus_stays_a_plus() -> None:
    assert parse_mock_name("say?text=1+1%20%26%20more").text == "1+1 & more"


def test_a_script_names_its_file() -> None:
    assert parse_mock_name("script?file=a/b.json").file == Path("a/b.json")


@pytest.mark.parametrize(("name", "meant"), [("sovler", "'solver'"), ("echo?latncy=1", "'latency'")])
def test_a_slip_of_the_pen_is_met_with_the_nearest_name(name: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean {meant}"):
        parse_mock_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "echo?fail=2",
        "echo?fail=-1",
        "echo?fail=nan",
        "echo?fail=often",
        "echo?fail=0.6&ratelimit=0.6",
        "echo?latency=3..1",
        "echo?latency=",
        "echo?seed=x",
        "echo?context=1.5",
        "echo?seed=1&seed=2",
        "echo?text=hi",
        "echo?tool=calculate",
        "script",
    ],
)
def test_a_value_that_does_not_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="mock/"):
        parse_mock_name(name)
