"""Sets of tasks: commits of git repositories, `registry.json` and `dataset.toml`; nothing of a repository is run."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import Candidate, Identity, ImportSource
from rollouthub_servers.terminal.harbor.task_set import task_digest
from rollouthub_servers.terminal.importer import HarborImporter

SETTINGS = {"network": "none"}


def make_task(folder: Path, name: str) -> Path:
    """A task."""
    for path, text in {
        "instruction.md": f"Do {name}.",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "task.toml": f'[task]\nname = "org/{name}"\n[environment]\ndocker_image = "debian:bookworm-slim"\n',
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def git(folder: Path, *words: str) -> str:
    """Run git as somebody who makes a repository."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path, *names: str) -> str:
    """A repository of tasks; the id of its commit."""
    for name in names:
        make_task(folder / "tasks" / name, name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "tasks")
    return git(folder, "rev-parse", "HEAD")


def looked(text: str, *patterns: str) -> dict[str, Candidate]:
    """What a source offers."""
    source = ImportSource.of(text, patterns)
    HarborImporter.about.check(source)
    return {candidate.id: candidate for candidate in HarborImporter().look(source, SETTINGS)}


def test_a_commit_of_a_repository_is_a_set_and_later_commits_are_not_seen(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    commit = make_repository(repository, "one", "two")
    make_task(repository / "tasks" / "three", "three")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "more")
    text = f"git+file://{repository}@{commit}"
    assert {name: found.runs for name, found in looked(text).items()} == {"tasks/one": True, "tasks/two": True}
    assert list(looked(f"{text}#subdirectory=tasks/two")) == ["two"]
    out = tmp_path / "out"
    (package,) = HarborImporter().write(ImportSource.of(text), ["tasks/two"], SETTINGS, out, Identity(name="made/set"))
    assert package.is_file()
    assert sorted(path.parent.name for path in out.rglob("task.toml")) == ["two"]
    assert not list(out.rglob(".git"))


def test_nothing_of_a_repository_is_run_or_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    repository = tmp_path / "repository"
    make_repository(repository, "one")
    (repository / "tasks/one/.gitattributes").write_text("* filter=evil ident text eol=crlf\n")
    (repository / "tasks/one/instruction.md").write_text("Do it.\n$Id$\n")
    (repository / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = file:///nowhere\n')
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "evil")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "config", "uploadpack.packObjectsHook", f"touch {ran};")
    for hook in ("post-checkout", "pre-upload", "post-merge", "reference-transaction"):
        file = repository / ".git" / "hooks" / hook
        file.write_text(f"#!/bin/sh\ntouch {ran}\n")
        file.chmod(0o755)
    own = tmp_path / "own.gitconfig"
    own.write_text(f'[filter "evil"]\n\tsmudge = touch {ran}; cat\n[core]\n\thooksPath = {repository}/.git/hooks\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    text = f"git+file://{repository}@{commit}"
    out = tmp_path / "out"
    HarborImporter().write(ImportSource.of(text), list(looked(text)), SETTINGS, out, Identity(name="made/set"))
    assert not ran.exists()
    (instruction,) = out.rglob("instruction.md")
    assert instruction.read_bytes() == b"Do it.\n$Id$\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("git+file:///nowhere@main", "names no commit"),
        ("git+file:///nowhere", "names no commit"),
        (f"git+ssh://host/x@{'a' * 40}", "https:// or file:// alone"),
        (f"git+ext::sh@x://y@{'a' * 40}", "https:// or file:// alone"),
        (f"git+file:///nowhere@{'a' * 40}", "git fetch|git, which is not installed"),
        (f"git+file:///nowhere@{'a' * 40}#subdirectory=../x", "leads out"),
    ],
)
def test_a_repository_that_cannot_be_had_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        looked(text)


def test_a_link_that_leads_out_of_a_fetched_task_refuses_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make_repository(repository, "one")
    (repository / "tasks/one/tests/passwd").symlink_to("/etc/passwd")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "link")
    found = looked(f"git+file://{repository}@{git(repository, 'rev-parse', 'HEAD')}")
    assert "leads out of the task" in found["tasks/one"].reasons[0]


def test_a_registry_is_followed_row_by_row_and_says_what_it_refuses(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "repository", "one", "two")
    make_repository(tmp_path / "elsewhere" / "private", "secret")
    (tmp_path / "sets").mkdir()
    make_task(tmp_path / "sets" / "local", "local")
    url, own = f"file://{tmp_path}/sets/repository", f"file://{tmp_path}/elsewhere/private"
    (tmp_path / "repository").rename(tmp_path / "sets" / "repository")
    rows = [
        {"name": "one", "git_url": url, "git_commit_id": commit, "path": "tasks/one"},
        {"name": "two", "git_url": url, "git_commit_id": commit, "path": "tasks/two"},
        {"name": "none", "git_url": url, "git_commit_id": commit, "path": "tasks/nothing"},
        {"name": "head", "git_url": url, "git_commit_id": "head", "path": "tasks/one"},
        {"name": "private", "git_url": own, "git_commit_id": commit, "path": "tasks/secret"},
        {"name": "login", "git_url": "https://me:word@host/x", "git_commit_id": commit, "path": "tasks/one"},
        {"name": "../up", "path": "local"},
        {"name": "out", "path": "../repository/tasks/one"},
        {"name": "local", "path": "local"},
    ]
    file = tmp_path / "sets" / "registry.json"
    file.write_text(json.dumps([{"name": "made", "version": "1", "description": "", "tasks": rows}]))
    found = looked(str(file))
    assert sorted(name for name, candidate in found.items() if candidate.runs) == ["local", "one", "two"]
    said = {name: candidate.reasons[0] for name, candidate in found.items() if not candidate.runs}
    for name, field in {
        "none": "path = 'tasks/nothing'",
        "head": "git_commit_id = 'head'",
        "private": "git_url",
        "login": "git_url",
        "../up": "name = '../up'",
        "out": "path = '../repository/tasks/one'",
    }.items():
        assert field in said[name], name
    assert "word" not in json.dumps(said)


def test_patterns_say_which_rows_of_a_registry_are_fetched(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "repository", "one")
    row = {"name": "one", "git_url": f"file://{tmp_path}/repository", "git_commit_id": commit, "path": "tasks/one"}
    gone = {**row, "name": "gone", "git_url": f"file://{tmp_path}/nowhere"}
    sets = [{"name": name, "version": "1", "tasks": [row, gone]} for name in ("a", "b")]
    (tmp_path / "registry.json").write_text(json.dumps(sets))
    found = looked(str(tmp_path / "registry.json"), "a@1/one")
    assert [name for name, candidate in found.items() if candidate.runs] == ["a@1/one"]
    assert found["b@1/gone"].reasons == ("it was not asked for",)
    assert "git_url" in looked(str(tmp_path / "registry.json"), "b@1/*")["b@1/gone"].reasons[0]


def test_a_dataset_is_held_to_its_digests(tmp_path: Path) -> None:
    digest = task_digest(make_task(tmp_path / "set" / "tasks" / "one", "one"))
    make_task(tmp_path / "set" / "tasks" / "two", "two")
    listed = [("org/one", digest), ("org/two", "0" * 64), ("org/three", digest)]
    rows = "".join(f'[[tasks]]\nname = "{name}"\ndigest = "sha256:{told}"\n' for name, told in listed)
    file = tmp_path / "set" / "dataset.toml"
    file.write_text(f'[dataset]\nname = "org/set"\n{rows}')
    found = looked(str(file))
    assert [name for name, candidate in found.items() if candidate.runs] == ["org/one"]
    assert "tasks.digest of 'org/two'" in found["org/two"].reasons[0]
    assert "tasks.name = 'org/three'" in found["org/three"].reasons[0]
    out = tmp_path / "out"
    HarborImporter().write(ImportSource.of(str(file)), ["org/one"], SETTINGS, out, Identity(name="made/set"))
    assert (out / "tasks" / "org" / "one" / "task.toml").is_file()
    (tmp_path / "set" / "tasks" / "one" / "instruction.md").write_text("Do something else.")
    assert not looked(str(file))["org/one"].runs


@pytest.mark.parametrize(("name", "text"), [("registry.json", "{"), ("registry.json", "{}"), ("dataset.toml", "a = 1")])
def test_a_file_that_is_no_set_is_refused_in_words(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        looked(str(tmp_path / name))
