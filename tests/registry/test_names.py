"""Names of packages: what is one, what is refused, and which two could be confused."""

import pytest

from rollouthub_registry.names import NameRefused, PackageName, Release, Version


def test_a_release_reads_back_as_it_was_written() -> None:
    release = Release.parse("acme-lab/word.count@1.20.3-rc.1")
    assert (release.package.namespace, release.package.name) == ("acme-lab", "word.count")
    assert str(release) == "acme-lab/word.count@1.20.3-rc.1"
    assert release.file_name == "acme-lab__word.count-1.20.3-rc.1.envhub"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "alone",
        "/name",
        "ns/",
        "ns/name/more",
        "../name",
        "ns/..",
        "ns/.hidden",
        "ns/name.",
        "ns/a__b",
        "ns/a--b",
        "ns/-a",
        "Ns/name",
        "ns/na me",
        "ns/name\n",
        "ns/n\x00me",
        "ns/con",
        "aux.tools/name",
        "n_s/name",  # no name of an MCP server
        "ns/pаypal",  # a Cyrillic а
        "ns/nameⅠ",
        "ns/" + "a" * 61,
        "n" * 40 + "/a",
        "a:b/c",
        "C:\\x/c",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(NameRefused):
        PackageName.parse(name)


@pytest.mark.parametrize(
    "version",
    [
        *[
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "01.2.3",
            "1.2.3+build",
            "1.2.3-",
            "1.2.3-RC1",
            "1.2.3-01",
            "1.2.3-a..b",
        ],
        *["1.2.3-a..b", "1.2.3\n", "１.2.3", "1.2.3/..", " 1.2.3", "1.2.-3", "1.2.9999999999", "1.2.3-" + "a" * 80],
    ],
)
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(NameRefused):
        Version.parse(version)


def test_versions_are_in_the_order_of_semver() -> None:
    ordered = [
        "0.9.9",
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta",
        "1.0.0",
        "1.0.10",
    ]
    versions = [Version.parse(text) for text in ordered]
    assert sorted([versions[-1], *versions[:-1]]) == versions


@pytest.mark.parametrize("other", ["1ab/my-env", "lab/my_env", "iab/my.env", "lab/rny-env", "la-b/myenv"])
def test_names_that_look_alike_have_one_skeleton(other: str) -> None:
    assert PackageName.parse(other).skeleton == PackageName.parse("lab/my-env").skeleton


def test_names_that_differ_have_skeletons_that_differ() -> None:
    assert PackageName.parse("lab/counting").skeleton != PackageName.parse("lab/sorting").skeleton
