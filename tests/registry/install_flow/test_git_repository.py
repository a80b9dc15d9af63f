"""Installing a commit of a repository: exactly that, and nothing of it runs."""

from pathlib import Path

from tests.registry.install_flow.machines import Machine, commit_all, declared


def test_a_commit_is_installed_whatever_came_later(user: Machine, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    folder = declared(repository / "environments" / "words")
    commit = commit_all(repository)
    (folder / "tasks.jsonl").write_text('{"prompt": "2 + 2?"}\n')
    later = commit_all(repository)
    url = f"git+{repository.as_uri()}"
    done = user.hub("install", f"{url}@{commit}#subdirectory=environments/words", "--json").json["environments"][0]
    assert done["source"] == f"{url}@{commit}#subdirectory=environments/words"
    assert "1 + 1" in (user.installed / "lab" / "words" / "1.0.0" / "content" / "tasks.jsonl").read_text()
    user.hub("install", f"{url}@{later}#subdirectory=environments/words").refused("other bytes")
    user.hub("lock")
    user.hub("remove", "lab/words")
    assert user.hub("install", "--locked", "--json").json["environments"][0]["bundle"] == done["bundle"]


def test_a_branch_is_refused(user: Machine, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    declared(repository)
    commit_all(repository)
    user.hub("install", f"git+{repository.as_uri()}@main").refused("pin a commit")


def test_a_commit_that_is_not_there_is_told(user: Machine, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    declared(repository)
    commit_all(repository)
    user.hub("install", f"git+{repository.as_uri()}@{'0' * 40}").refused("0" * 40, code=1)
    user.hub("install", f"git+{(tmp_path / 'nowhere').as_uri()}@{'0' * 40}").refused("nowhere", code=1)


def test_nothing_of_a_repository_runs(user: Machine, tmp_path: Path) -> None:
    ran, repository = tmp_path / "ran", tmp_path / "repository"
    declared(repository)
    (repository / ".gitattributes").write_text("*.jsonl filter=evil\nserver.py ident\n")
    (repository / ".gitmodules").write_text(f'[submodule "x"]\npath = x\nurl = {repository.as_uri()}\n')
    commit = commit_all(repository)
    config = user.home / ".gitconfig"
    user.variables()
    config.write_text(
        f'[filter "evil"]\nsmudge = touch {ran}\nrequired = true\n[core]\nhooksPath = {tmp_path / "hooks"}\n'
        f'fsmonitor = "touch {ran}"\n[init]\ntemplateDir = {tmp_path / "template"}\n'
    )
    for folder in ("hooks", "template/hooks"):
        hook = tmp_path / folder / "post-checkout"
        hook.parent.mkdir(parents=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    user.hub("install", f"git+{repository.as_uri()}@{commit}").went_well()
    assert not ran.exists()


def test_a_link_in_a_repository_is_refused(user: Machine, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    declared(repository)
    (repository / "data").symlink_to("/etc")
    commit = commit_all(repository)
    before = user.files()
    user.hub("install", f"git+{repository.as_uri()}@{commit}").refused("data")
    assert user.files() == before
