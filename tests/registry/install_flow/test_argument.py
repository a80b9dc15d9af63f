"""What an argument of `hub install` stands for."""

from pathlib import Path

import pytest

from rollouthub.errors import UsageError
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.install_flow.argument import (
    ArchiveArgument,
    Argument,
    FolderArgument,
    GitArgument,
    parse_argument,
    parse_source,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HERE = Path("/somewhere")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("lab/words", VersionRequest.parse("lab/words")),
        ("lab/words@^1.2", VersionRequest.parse("lab/words@^1.2")),
        ("./words", FolderArgument(HERE / "words")),
        ("..", FolderArgument(Path("/"))),
        ("/else/words", FolderArgument(Path("/else/words"))),
        ("lab__words-1.0.0.envhub", ArchiveArgument(HERE / "lab__words-1.0.0.envhub")),
        (f"git+https://example.org/x.git@{COMMIT}", GitArgument("https://example.org/x.git", COMMIT)),
        (f"git+file:///x@{COMMIT}#subdirectory=a/b", GitArgument("file:///x", COMMIT, "a/b")),
    ],
)
def test_an_argument_stands_for_one_thing(text: str, argument: Argument) -> None:
    assert parse_argument(text, HERE) == argument
    if not isinstance(argument, VersionRequest):
        assert parse_source(argument.source) == argument


def test_a_registry_is_no_argument() -> None:
    assert parse_source("https://hub.example.org") is None
    assert parse_source("file:///registry") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no environment"),
        (" ", "names no environment"),
        ("words", "no namespace"),
        ("words@@1", "no namespace"),
        ("arithmetic@^1", "arithmetic comes with the hub: there is nothing to install"),
        ("a" * 5000, "no namespace"),
        (f"lab/{'a' * 5000}", "too long: 5000 characters"),
        ("lab/words@" + "1" * 5000, "no range"),
        ("lab/words==1.2", "a version comes after an @: 'lab/words@==1.2'"),
        ("lab/words:1.2", "a version comes after an @: 'lab/words@1.2'"),
        ("~nobody-of-that-name/words", "home of a user who is not here"),
        ("https://hub.example/lab/words", "namespace/name --registry URL"),
        ("https://me:word@hub.example/lab/words", "namespace/name --registry URL"),
        ("https://hub.example/lab/words?token=word", "namespace/name --registry URL"),
        ("https://example.org/x.git", r"git\+https://HOST/REPOSITORY.git@COMMIT"),
        ("git@example.org:x/y.git", r"git\+https://HOST/REPOSITORY.git@COMMIT"),
        ("https://hub.example/lab__words-1.0.0.envhub", "download the archive"),
        ("lab/Words", "is no name"),
        ("lab/wörds", "U\\+00F6"),
        ("lab/../x", "is no name"),
        ("lab/words@1.2.3.4", "no range"),
        ("lab/words@../../x", "no range"),
        ("git+https://example.org/x", "pin a commit"),
        ("git+https://example.org/x@main", "pin a commit"),
        ("git+https://example.org/x@v1.0.0", "pin a commit"),
        ("git+https://example.org/x@0123abc", "pin a commit"),
        (f"git+https://example.org/x@{COMMIT[:-1]}g", "pin a commit"),
        ("git+https://example.org/x@", "pin a commit"),
        (f"git+ssh://example.org/x@{COMMIT}", r"git\+https://"),
        (f"git+http://example.org/x@{COMMIT}", r"git\+https://"),
        (f"git+--upload-pack=id@{COMMIT}", r"git\+https://"),
        (f"git+ext::sh -c id@{COMMIT}", "no address"),
        (f"git+https://me:word@example.org/x@{COMMIT}", "password"),
        (f"git+https://example.org/x?token=word@{COMMIT}", "query"),
        (f"git+https://example.org/x@{COMMIT}#subdirectory=../..", "names no folder"),
        (f"git+https://example.org/x@{COMMIT}#subdirectory=--all", "names no folder"),
        (f"git+https://example.org/x@{COMMIT}#egg=x", "names no folder"),
    ],
)
def test_what_stands_for_nothing_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parse_argument(text, HERE)
    assert "word@" not in str(refused.value) and "=word" not in str(refused.value)
