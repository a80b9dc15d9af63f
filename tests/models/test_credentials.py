"""Where keys come from, which files are refused, and that nothing ever shows one."""

import logging
import pickle
import subprocess
from pathlib import Path

import pytest

from envhub.errors import CredentialError
from envhub.models.credentials import Credentials, load_credentials

KEY = "hush-hush-hush"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True)


def test_the_environment_wins_over_env_yaml_and_that_over_dotenv(tmp_path: Path) -> None:
    write(tmp_path / "env.yaml", "A_KEY: yaml\nB_KEY: yaml\n")
    write(tmp_path / ".env", "A_KEY=dotenv\nB_KEY=dotenv\nexport C_KEY='dot # env'\n")
    found = load_credentials({"A_KEY": "environment"}, tmp_path)
    assert [found.get(name) for name in ("A_KEY", "B_KEY", "C_KEY", "D_KEY")] == [
        "environment",
        "yaml",
        "dot # env",
        None,
    ]


def test_without_files_there_is_the_environment(tmp_path: Path) -> None:
    assert load_credentials({"A": "1"}, tmp_path).get("B", "A") == "1"


def test_an_empty_value_is_as_good_as_none(tmp_path: Path) -> None:
    assert load_credentials({"A": " ", "B": "2"}, tmp_path).get("A", "B") == "2"


@pytest.mark.parametrize("name", ["env.yaml", ".env"])
def test_a_file_git_tracks_is_refused(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init")
    write(tmp_path / name, "")
    load_credentials({}, tmp_path)
    git(tmp_path, "add", "-f", name)
    with pytest.raises(CredentialError, match=r"git tracks it; run `git rm --cached"):
        load_credentials({}, tmp_path)


def test_a_link_to_a_tracked_file_is_refused(tmp_path: Path) -> None:
    repository, work = tmp_path / "repository", tmp_path / "work"
    repository.mkdir()
    work.mkdir()
    git(repository, "init")
    write(repository / "keys", "A_KEY=1")
    git(repository, "add", "keys")
    (work / ".env").symlink_to(repository / "keys")
    with pytest.raises(CredentialError, match="git tracks it"):
        load_credentials({}, work)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_others_can_read_is_warned_about(tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / ".env", f"A_KEY={KEY}", mode)
    load_credentials({}, tmp_path)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "chmod 600" in record.message
    assert KEY not in record.message


def test_a_file_of_ones_own_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / ".env", f"A_KEY={KEY}")
    load_credentials({}, tmp_path)
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"A_KEY: {KEY}\n  B: [", "line 2: not valid YAML"),
        (f"- {KEY}", "not a flat mapping"),
        (f"A_KEY:\n  deep: {KEY}", "value of 'A_KEY' is not a string"),
        ("A_KEY: 12345678", "put it in quotes"),
        (f"A_KEY: !!python/object/apply:os.getcwd []\nB: {KEY}", "not valid YAML"),
    ],
)
def test_a_malformed_env_yaml_is_named_and_not_quoted(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "env.yaml", text)
    with pytest.raises(CredentialError, match=problem) as caught:
        load_credentials({}, tmp_path)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_empty_env_yaml_holds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "env.yaml", "# nothing yet\n")
    assert load_credentials({}, tmp_path).get("A") is None


@pytest.mark.parametrize("name", ["env.yaml", ".env"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe\x00K")
    (tmp_path / name).chmod(0o600)
    with pytest.raises(CredentialError, match="cannot be read as UTF-8"):
        load_credentials({}, tmp_path)


def test_nothing_shows_a_key() -> None:
    credentials = Credentials({"OPENAI_API_KEY": KEY})
    assert KEY not in f"{credentials!r} {credentials!s} {[credentials]}"
    with pytest.raises(TypeError, match="do not leave"):
        pickle.dumps(credentials)
    with pytest.raises(TypeError):
        vars(credentials)


def test_known_secrets_and_what_looks_like_one_are_masked() -> None:
    credentials = Credentials({"X_KEY": "abcdef", "Y_TOKEN": "abcdef-longer", "HOME": "/home/me", "Z_KEY": "abc"})
    said = credentials.redact("abcdef-longer, abcdef, /home/me abc, sk-proj-abc***xyz, Bearer 12345678abc")
    assert said == "[redacted], [redacted], /home/me abc, [redacted], Bearer [redacted]"


@pytest.mark.parametrize("value", ["hush hush", "hush\nhush", "hüsh-hush", "“hush-hush”"])
def test_a_key_no_header_can_carry_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(CredentialError, match="X_API_KEY holds") as caught:
        Credentials({"X_API_KEY": value}).key("X_API_KEY")
    assert "sh" not in str(caught.value).replace("should", "")
