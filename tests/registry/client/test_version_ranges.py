"""Which versions a range asks for."""

import pytest

from rollouthub_registry.client.version_ranges import Range, VersionRequest
from rollouthub_registry.names import NameRefused, Version

_TEXTS = "0.1.9 0.2.0 0.2.5 0.3.0 1.0.0 1.2.0 1.2.3 1.2.9 1.3.0 1.10.0 2.0.0-rc.1 2.0.0-rc.2 2.0.0 2.1.0 3.0.0-rc.1"
VERSIONS = [Version.parse(text) for text in _TEXTS.split(" ")]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("", "2.1.0"),
        ("latest", "2.1.0"),
        ("*", "2.1.0"),
        ("1", "1.10.0"),
        ("1.x", "1.10.0"),
        ("1.*", "1.10.0"),
        ("1.2", "1.2.9"),
        ("1.2.x", "1.2.9"),
        ("1.2.3", "1.2.3"),
        ("=1.2.3", "1.2.3"),
        ("==1.2.3", "1.2.3"),
        ("^1.2", "1.10.0"),
        ("^1.2.3", "1.10.0"),
        ("^0.2", "0.2.5"),
        ("^0.2.1", "0.2.5"),
        ("^0", "0.3.0"),
        ("~1.2", "1.2.9"),
        ("~1.2.3", "1.2.9"),
        ("~1", "1.10.0"),
        (">=1,<2", "1.10.0"),
        (">=1 <2", "1.10.0"),
        (">= 1, < 1.2", "1.0.0"),
        ("<=1.2", "1.2.9"),
        ("<=1.2.3", "1.2.3"),
        (">1", "2.1.0"),
        (">1.2.9,<2", "1.10.0"),
        ("<2.0.0", "1.10.0"),
        ("2.0.0-rc.1", "2.0.0-rc.1"),
        (">=2.0.0-rc.1,<2.0.0", "2.0.0-rc.2"),
        ("^2.0.0-rc.1", "2.1.0"),
        ("3", None),
        ("9.9.9", None),
        (">2.1", None),
        ("^0.0.1", None),
    ],
)
def test_a_range_chooses_the_highest_version_that_will_do(text: str, best: str | None) -> None:
    chosen = Range.parse(text).best(VERSIONS)
    assert (None if chosen is None else str(chosen)) == best


def test_a_prerelease_is_chosen_only_where_one_of_the_same_version_is_named() -> None:
    assert not Range.parse(">=2").holds(Version.parse("3.0.0-rc.1"))
    assert not Range.parse(">=2.0.0-rc.1").holds(Version.parse("3.0.0-rc.1"))
    assert Range.parse(">=3.0.0-rc.0").holds(Version.parse("3.0.0-rc.1"))


@pytest.mark.parametrize(
    "text",
    [
        "one", "1.2.3.4", "01.2.3", "1.x.3", "^^1", ">=1,,<2", ">=1,", "1-rc.1", "1.2-rc.1", "v1.2.3", "1.2.3+build",
        "../1", "1.2.3\n>=1x", "１.2.3", "1 2", "!=1", "x" * 500, "1.2.3-rc..1",
    ],
)  # fmt: skip
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(NameRefused):
        Range.parse(text)


@pytest.mark.parametrize(("text", "is_exact"), [("1.2.3", True), ("=1.2.3-rc.1", True), ("1.2", False), ("", False)])
def test_a_range_says_whether_one_version_was_named(text: str, is_exact: bool) -> None:
    assert Range.parse(text).is_exact is is_exact


def test_a_package_is_asked_for_with_a_range() -> None:
    wanted = VersionRequest.parse("lab/dice@^1.2")
    assert (str(wanted.package), str(wanted.versions), str(wanted)) == ("lab/dice", "^1.2", "lab/dice@^1.2")
    assert str(VersionRequest.parse("lab/dice").versions) == "latest"


@pytest.mark.parametrize(
    "text", ["dice", "lab/../dice", "lab/dice/more", "LAB/dice", "lab/dice@", "lab/d\x1bce", "@", ""]
)
def test_only_packages_are_asked_for(text: str) -> None:
    with pytest.raises(NameRefused):
        VersionRequest.parse(text)
