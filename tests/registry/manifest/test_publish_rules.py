"""What a manifest lacks before strangers can use it is told with file, line and key; nothing of it runs."""

import hashlib
import tomllib
from pathlib import Path

import pytest
import tomli_w

from rollouthub.plugins.manifest import load_manifest, parse_manifest
from rollouthub_registry.manifest import check_publishable

TASKS = b'{"prompt": "Go."}\n'
DIGEST = "sha256:" + "0" * 64
WHOLE = f"""\
name = "me/notes"
version = "1.2.0-rc.1"
description = "Notes."
license = "MIT"

[server]
image = "notes@{DIGEST}"

[tasks]
test = "tasks.jsonl"
more = {{ hf = "someone/notes", revision = "{"0" * 40}" }}

[verifier]
url = "https://example.org/verify"

[sandbox]
images = ["debian@{DIGEST}"]
"""
PYTHON = """\
name = "me/sums"
version = "0.1.0"
description = "Sums."
license = "MIT"

[python]
entry = "sums:Sums"
distribution = "my_sums"
"""
SHIPPED = Path(__file__).parents[3] / "mcp_servers" / "rollouthub_servers"


def told(folder: Path, text: str) -> list[str]:
    """The problems of a manifest in a folder, without the file's own name."""
    file = folder / "env.toml"
    file.write_text(text)
    return [str(problem).removeprefix(f"{file}:") for problem in check_publishable(load_manifest(file), file)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment's folder with its tasks."""
    (tmp_path / "tasks.jsonl").write_bytes(TASKS)
    return tmp_path


def test_a_whole_manifest_can_be_published(folder: Path) -> None:
    assert told(folder, WHOLE) == []
    assert told(folder, PYTHON) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("me/notes", "m_e/notes", "1: name: the namespace 'm_e' holds `_`"),
        ("me/notes", "me/no--tes", "1: name: 'no--tes' is no name"),
        ("1.2.0-rc.1", "1.2.0+rc.1", "2: version: '1.2.0+rc.1' is no version"),
        ("1.2.0-rc.1", "1.02.0", "2: version: '1.02.0' is no version"),
        ("Notes.", " ", "3: description: say in one line"),
        ("Notes.", r"Notes.\nAnd more.", "3: description: it has several lines"),
        ('license = "MIT"\n', "", "1: license: without one no other person may use it"),
        (f"notes@{DIGEST}", "notes:latest", "7: server.image: 'notes:latest' may change; name it by digest"),
        (f"notes@{DIGEST}", "notes@sha256:0", "7: server.image: 'notes@sha256:0' may change"),
        (f"debian@{DIGEST}", "debian", "17: sandbox.images: 'debian' may change"),
        (f', revision = "{"0" * 40}"', "", "11: tasks.more.hf: 'someone/notes' may change"),
        (
            "https://example.org/verify",
            "http://localhost:1/v",
            "14: verifier.url: 'http://localhost:1/v' is a place on",
        ),
        ("https://example.org/verify", "http://[::1]:1/v", "14: verifier.url: "),
        (
            '"tasks.jsonl"',
            f'{{ url = "http://127.0.0.1/a.jsonl", sha256 = "{"0" * 64}" }}',
            "10: tasks.test.url: 'http://127.0.0.1/a.jsonl' is a place on this machine",
        ),
        ("tasks.jsonl", "lost.jsonl", "10: tasks.test: there is no file 'lost.jsonl' beside env.toml"),
        ("tasks.jsonl", "../tasks.jsonl", "10: tasks.test: '../tasks.jsonl' lies outside"),
        ("tasks.jsonl", "/etc/hostname", "10: tasks.test: '/etc/hostname' lies outside"),
        (
            '"tasks.jsonl"',
            f'{{ file = "tasks.jsonl", sha256 = "{"0" * 64}" }}',
            f"10: tasks.test: 'tasks.jsonl' has the digest {hashlib.sha256(TASKS).hexdigest()}",
        ),
        ("[tasks]", 'files = "../seeds"\n[tasks]', "9: server.files: '../seeds' lies outside"),
    ],
)
def test_a_reason_not_to_publish_is_told_with_its_line(folder: Path, old: str, new: str, said: str) -> None:
    assert old in WHOLE
    problems = told(folder, WHOLE.replace(old, new, 1))
    assert len(problems) == 1
    assert problems[0].startswith(said)


def test_a_link_out_of_the_folder_is_outside(folder: Path) -> None:
    (folder / "linked.jsonl").symlink_to("/etc/hostname")
    assert "lies outside" in told(folder, WHOLE.replace("tasks.jsonl", "linked.jsonl"))[0]


@pytest.mark.parametrize(
    ("project", "said"),
    [
        ({"name": "My.Sums", "version": "0.1.0"}, []),
        ({"name": "my-sums", "dynamic": ["version"]}, []),
        ({"name": "other"}, ["8: python.distribution: 'my_sums', but pyproject.toml beside it says name = 'other'"]),
        (
            {"name": "my-sums", "version": "0.2.0"},
            ["2: version: '0.1.0', but pyproject.toml beside it says version = '0.2.0'"],
        ),
    ],
)
def test_a_distribution_says_the_same(folder: Path, project: dict[str, str], said: list[str]) -> None:
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project}))
    assert told(folder, PYTHON) == said


def test_a_pyproject_that_is_no_toml_is_told(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project")
    assert told(folder, PYTHON)[0].startswith("8: python.distribution: pyproject.toml beside it cannot be read")


def test_a_manifest_that_lies_nowhere_is_looked_at_alone() -> None:
    assert check_publishable(parse_manifest(WHOLE.replace("tasks.jsonl", "lost.jsonl").encode())) == []
    problem = check_publishable(parse_manifest(PYTHON.replace('license = "MIT"\n', "").encode()))[0]
    assert (problem.file, problem.line, problem.key) == ("env.toml", 1, "license")


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*/env.toml")), ids=lambda file: file.parent.name)
def test_a_shipped_environment_lacks_nothing(file: Path) -> None:
    assert tomllib.loads(file.read_text())["license"] == "Apache-2.0"
    assert check_publishable(load_manifest(file), file) == []
