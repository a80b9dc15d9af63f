"""Where keys come from, which files are refused, and that nothing ever shows one."""

import logging
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest

from rollouthub.engine.policy_model import with_default_model
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import CredentialError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.resolve import find_endpoint

KEY = "hush-hush-hush"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def git(directory: Path, *words: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
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


@pytest.mark.parametrize("settings", [("index.version", "4"), ("core.splitIndex", "true"), ("index.skipHash", "true")])
def test_a_tracked_file_is_found_in_every_form_of_an_index(tmp_path: Path, settings: tuple[str, str]) -> None:
    git(tmp_path, "init")
    git(tmp_path, "config", *settings)
    below = tmp_path / "a folder" / ("long" * 60)
    below.mkdir(parents=True)
    for name in ("a.env", ".env.example", "zz", ".enf"):
        write(below / name, "")
        write(tmp_path / name, "")
    write(below / ".env", "")
    git(tmp_path, "add", "-f", "--intent-to-add", "zz")
    git(tmp_path, "add", "-f", "a.env", ".env.example", "zz", ".enf", *(str(below / name) for name in ("a.env", "zz")))
    load_credentials({}, below)
    git(tmp_path, "add", "-f", str(below / ".env"))
    with pytest.raises(CredentialError, match="git tracks it"):
        load_credentials({}, below)
    worktree = tmp_path.parent / f"{tmp_path.name}-worktree"
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "keys")
    git(tmp_path, "worktree", "add", str(worktree))
    with pytest.raises(CredentialError, match="git tracks it"):
        load_credentials({}, worktree / below.relative_to(tmp_path))


def planted_repository(folder: Path, work: Path) -> Path:
    """A repository that runs a command of its own when git looks for a file of `work`; what the command makes."""
    work.mkdir(parents=True)
    write(work / "a", "")
    made = folder / "executed"
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "one")
    name = f"HEAD:{work.relative_to(folder)}"
    tree = subprocess.run(["git", "rev-parse", name], cwd=folder, check=True, capture_output=True, text=True)
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    (folder / ".git" / "objects" / tree.stdout[:2] / tree.stdout[2:].strip()).unlink()
    for setting, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(folder),
        "remote.origin.uploadpack": f"touch {made}; false",
        "core.fsmonitor": f"touch {made}; false",
    }.items():
        git(folder, "config", setting, value)
    work.mkdir(exist_ok=True)
    return made


@pytest.mark.parametrize("name", ["env.yaml", ".env"])
@pytest.mark.parametrize("owner", [os.geteuid(), 65534])
def test_nothing_that_a_repository_above_names_is_executed(tmp_path: Path, name: str, owner: int) -> None:
    if os.geteuid() not in {0, owner}:
        pytest.skip("only root can give a file to another user")
    shared = tmp_path / "shared"
    made = planted_repository(shared, shared / "work")
    write(shared / "work" / name, "A_KEY: own" if name == "env.yaml" else "A_KEY=own")
    for path in (shared, shared / ".git", *(shared / ".git").rglob("*")):
        os.chown(path, owner, -1)
    assert load_credentials({}, shared / "work").get("A_KEY") == "own"
    assert not made.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_another_users_repository_lists_is_not_believed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    write(tmp_path / ".env", "A_KEY=own")
    git(tmp_path, "add", ".env")
    os.chown(tmp_path / ".git" / "index", 65534, 65534)
    assert load_credentials({}, tmp_path).get("A_KEY") == "own"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("name", ["env.yaml", ".env"])
@pytest.mark.parametrize("kind", ["file", "link", "file behind a link"])
def test_another_users_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    place = work / name if kind == "file" else tmp_path / "theirs"
    write(place, "")
    if kind != "file":
        (work / name).symlink_to(place)
    os.chown(work / name if kind == "link" else place, 65534, 65534, follow_symlinks=False)
    with pytest.raises(CredentialError, match="is not read: user 65534 owns it, and you are user 0; remove it"):
        load_credentials({}, work)


def test_a_file_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    write(tmp_path / ".env", "", 0o602)
    with pytest.raises(CredentialError, match="every user may write to it; look into it, then `chmod 600"):
        load_credentials({}, tmp_path)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("HOSTED_VLLM_API_BASE", "HOSTED_VLLM_API_KEY"),
        ("AZURE_API_BASE", "AZURE_API_KEY"),
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("AWS_BEDROCK_RUNTIME_ENDPOINT", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_an_address_from_a_file_never_meets_a_key_from_elsewhere(tmp_path: Path, address: str, key: str) -> None:
    write(tmp_path / ".env", f"{address}=http://127.0.0.1:1\n{key}=theirs-theirs\n")
    assert load_credentials({}, tmp_path).get(address) == "http://127.0.0.1:1"
    found = load_credentials({key: KEY}, tmp_path)
    with pytest.raises(CredentialError, match=rf"{address} of .*[.]env is not used with {key} of the environment"):
        found.get(address)
    assert found.get(key) == KEY
    assert address not in found.asked_for()
    assert load_credentials({key: KEY, address: "http://own"}, tmp_path).get(address) == "http://own"
    write(tmp_path / "env.yaml", f"{key}: {KEY}\n")
    with pytest.raises(CredentialError, match=r"env[.]yaml: an address from a file gets keys of the same file alone"):
        load_credentials({}, tmp_path).get(address)


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


def test_the_model_of_nemo_gyms_file_keeps_its_address_to_its_own_key(tmp_path: Path) -> None:
    text = f"policy_base_url: https://example.org/v1\npolicy_api_key: {KEY}\npolicy_model_name: tiny\n"
    write(tmp_path / "env.yaml", text + "search: {top: 3}\n")
    found = load_credentials({"OPENAI_API_KEY": "another-key"}, tmp_path)
    endpoint = find_endpoint(ModelConfig(name="policy/tiny"), found)
    assert endpoint is not None
    assert (endpoint.served_name, endpoint.base_url, endpoint.api_key) == ("tiny", "https://example.org/v1", KEY)
    asked = RunRequest(environments=("arithmetic",))
    assert with_default_model(asked, found).model == "policy/tiny"
    assert with_default_model(asked.model_copy(update={"agent": "oracle"}), found).model is None
    assert with_default_model(asked.model_copy(update={"model": "mock/solver"}), found).model == "mock/solver"
    elsewhere = load_credentials({"policy_api_key": "another-key"}, tmp_path)
    with pytest.raises(CredentialError, match=r"policy_base_url of .* is not used with policy_api_key of the env"):
        find_endpoint(ModelConfig(name="policy/tiny"), elsewhere)
