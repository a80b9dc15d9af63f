"""Sources of strangers that would have an import, or who runs what it wrote, do more than was asked."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub_servers.foreign.package import ImportedPackage
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_record import CODE
from rollouthub_servers.ors.importer import described
from rollouthub_servers.ors.ors_record import OrsRecord
from tests.mcp_servers.containers import TASKS

ORS = Path(__file__).parent / "shaped_ors"
SERVED = "evil:\n  resources_servers:\n    evil:\n      entrypoint: app.py\n      more: *last\n"
LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


def gym_server(root: Path) -> Path:
    """The folder of a resources server of NeMo Gym, in a checkout."""
    server = root / "checkout" / "resources_servers" / "evil"
    for name in ("configs", "data"):
        (server / name).mkdir(parents=True)
    (server / "app.py").touch()
    (server / "configs" / "evil.yaml").write_text(SERVED.replace("*last", "1"))
    (server / "data" / "example.jsonl").write_text('{"responses_create_params": {"input": "?"}}\n')
    return server


def why_not(format_name: str, source: Path | str) -> dict[str, str]:
    """Why items of a source are refused."""
    found = find_importer(format_name).look(ImportSource.of(str(source)), {})
    return {each.id: "; ".join(each.reasons) for each in found}


@pytest.mark.parametrize(
    "words",
    ['a""" + print(ran := 1) + """', "a\n'''\nran = 1\n", "a\\", 'a"', "a\\" + '"' * 4 + "\nran = 1\n"],
    ids=["quotes", "lines", "backslash", "one quote", "both"],
)
def test_no_name_in_a_source_is_code_of_its_package(words: str, tmp_path: Path) -> None:
    package = ImportedPackage(
        name="local/evil",
        license=None,
        source=words,
        title=f"ORS environment {words}",
        base="rollouthub_servers.ors:Ors",
        config="OrsConfig",
        settings={},
        readme="",
    )
    module = runpy.run_path(str(package.write(tmp_path)))
    assert "ran" not in module
    assert str(module["__doc__"]).startswith("ORS environment a")


async def test_a_server_s_names_are_no_paths(tmp_path: Path) -> None:
    names = ["../../away", str(tmp_path / "away"), "..", "a\nb"]
    AppFolder(ORS).copy(tmp_path / CODE / ORS.name)
    program = tmp_path / CODE / ORS.name / "server.py"
    text = program.read_text().replace('["sums", "empty", "group"]', f"['sums', *{names!r}]")
    program.write_text(text.replace("if path in known:", "path = '/sums/' + path.rsplit('/', 1)[1] if '/s' not in path "
                                    "and path.count('/') > 1 else path\n    if path in known:"))  # fmt: skip
    record = OrsRecord(folder=ORS.name, entry="server.py")
    offered, _ = await described(ForeignRuntime(record.program(tmp_path, Path(sys.executable))))
    assert "refused" not in offered["sums"]
    assert {
        name: "none that a folder can have" in str(offered[name].get("refused")) for name in names
    } == dict.fromkeys(names, True)


def test_an_environment_of_verifiers_is_not_called_as_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "pyproject.toml").write_text('[project]\nname = ".."\n')
    (tmp_path / "one" / "_.py").write_text("def load_environment(): ...\n")
    assert "names no module" in why_not("verifiers", tmp_path)[".."]


@pytest.mark.parametrize("place", ["key", "data/example.jsonl", "configs/evil.yaml", "requirements.txt"])
def test_a_link_of_a_resources_server_brings_in_no_file_of_this_machine(place: str, tmp_path: Path) -> None:
    server = gym_server(tmp_path)
    assert why_not("nemo_gym", tmp_path / "checkout") == {"evil": ""}
    (server / place).unlink(missing_ok=True)
    (server / place).symlink_to("/dev/zero" if place.endswith("yaml") else "/etc/passwd")
    assert "is a link that leads out of it" in why_not("nemo_gym", tmp_path / "checkout")["evil"]


def test_a_pipe_hangs_no_import(tmp_path: Path) -> None:
    server = gym_server(tmp_path)
    (server / "configs" / "evil.yaml").unlink()
    os.mkfifo(server / "configs" / "evil.yaml")
    assert "evil.yaml is neither file nor folder" in why_not("nemo_gym", tmp_path / "checkout")["evil"]


@pytest.mark.parametrize("text", [LAUGHS + SERVED.replace("last", "h"), "a: &a [*a]\n" + SERVED.replace("last", "a")])
def test_configuration_that_repeats_itself_without_end_is_refused(text: str, tmp_path: Path) -> None:
    (gym_server(tmp_path) / "configs" / "evil.yaml").write_text(text)
    assert "more than 100,000 values" in why_not("nemo_gym", tmp_path / "checkout")["evil"]


@pytest.mark.parametrize("place", ["environment/key", "tests/key", "key", "solution"])
def test_a_link_of_a_task_brings_in_no_file_of_this_machine(place: str, tmp_path: Path) -> None:
    shutil.copytree(TASKS / "greeting", tmp_path / "tasks" / "evil")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "id").write_text("private")
    there = tmp_path / "tasks" / "evil" / place
    shutil.rmtree(there, ignore_errors=True)
    there.symlink_to(tmp_path / "secret" / "id" if place != "solution" else tmp_path / "secret")
    source = ImportSource.of(str(tmp_path / "tasks"))
    with pytest.raises(ConfigError, match=r"is a link that leads out of it|none of the tasks"):
        find_importer("harbor").write(source, ["evil"], {}, tmp_path / "out", Identity())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "given", "problem"),
    [
        ("solution.sh", "/etc/passwd", "solution.sh is a link that leads out of the task"),
        ("run-tests.sh", "/etc/passwd", "run-tests.sh is a link that leads out of the task"),
        ("task.yaml", "instruction: x\n" + LAUGHS, "more than 100,000 values"),
    ],
)
def test_an_old_task_brings_in_and_repeats_nothing(place: str, given: Any, problem: str, tmp_path: Path) -> None:
    task = tmp_path / "evil"
    task.mkdir()
    files = {"task.yaml": "instruction: x\n", "Dockerfile": "FROM debian\n", "run-tests.sh": "true\n"}
    for name, text in files.items():
        (task / name).write_text(text)
    (task / place).unlink(missing_ok=True)
    if given.startswith("/"):
        (task / place).symlink_to(given)
    else:
        (task / place).write_text(given)
    assert problem in why_not("terminal_bench", tmp_path)["evil"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_no_folder_of_a_repository_is_one_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, own = tmp_path / "made", tmp_path / "own" / "server"
    made.mkdir()
    own.mkdir(parents=True)
    (own / "app.py").touch()
    (made / "env").symlink_to(own.parent)
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run((*git, *words), cwd=made, check=True, capture_output=True)
    commit = subprocess.run(("git", "rev-parse", "HEAD"), cwd=made, check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(ConfigError, match="no environment in"):
        why_not("openenv", f"git+file://{made}@{commit.strip()}")
