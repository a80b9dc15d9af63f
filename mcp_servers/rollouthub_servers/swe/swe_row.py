"""Makes a task of a row with SWE-bench's columns."""

import json
import re
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from rollouthub import Public, Secret, Task
from rollouthub.authoring.rows import Row
from rollouthub.sandbox import MIB, Build, Network, Resources, SandboxSpec
from rollouthub_servers.swe.published_data_sets import Published, Runner, published
from rollouthub_servers.table_config import TableConfig
from rollouthub_servers.terminal.config import ShellConfig

INSTRUCTION = """\
The repository in {repository} has a problem. Solve it there. Hidden tests decide whether it is solved; changes to the
repository's own tests do not count.

{problem}"""
_PATCHED = re.compile(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)


class SweConfig(ShellConfig, TableConfig):
    """The data set, and the resources of a repository's container."""

    id_column: str | None = "instance_id"
    """Column of the task's id."""
    network: Network = "none"
    """`bridge` gives the agent and the tests a network."""
    cpus: float = Field(default=2.0, gt=0)
    """CPUs of a container."""
    memory_mb: int = Field(default=4096, ge=64)
    """Memory of a container, in MiB."""
    storage_mb: int = Field(default=10_240, ge=64)
    """Disk space of a container, in MiB."""
    pids: int = Field(default=512, ge=16)
    """Most processes and threads in a container at a time."""
    test_seconds: float = Field(default=250.0, ge=1)
    """Most seconds for the tests; tests that take longer have failed."""
    changed_mb: int = Field(default=64, ge=1)
    """Most MiB of all files that the agent changed."""


class SweSecret(Secret):
    """The hidden tests, and the known patch that passes them."""

    image: str | Build
    repository: str
    """Path of the repository in the container."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...] = ()
    test_command: str
    runner: Runner = "pytest"
    prelude: str = ""
    """Shell code that bash runs before the command; if empty, the shell is `/bin/sh`."""
    test_names: tuple[str, ...] = ()
    """Arguments for the runners of Django and SymPy."""
    is_published: bool = False
    """Whether image and runner are those of a published data set."""
    test_patch: str = ""
    test_files: dict[str, str] = {}
    """Path below the repository → text of a test file."""
    patch: str = ""

    @property
    def hidden(self) -> frozenset[str]:
        """Paths that the hidden tests add or change."""
        return frozenset(self.test_files) | patched(self.test_patch)


def make_task(task_id: str, row: Row) -> Task[Public, Secret]:
    """Make the task of a row.

    Raises:
        DataError: a column is missing or invalid.
    """
    repository = _text(row, "repo_path", "/testbed")
    problem = _text(row, "problem_statement", None)
    known = _published(task_id, row)
    secret = SweSecret(
        image=_image(row, known),
        repository=repository,
        fail_to_pass=_names(row, ("FAIL_TO_PASS", "fail_to_pass")),
        pass_to_pass=_names(row, ("PASS_TO_PASS", "pass_to_pass"), required=False),
        **_running(row, known),
        test_patch=_text(row, "test_patch", ""),
        test_files=_files(row),
        patch=_text(row, "patch", ""),
    )
    if not secret.test_patch and not secret.test_files:
        raise row.error("there are no hidden tests: neither of the columns 'test_patch' and 'test_files' is there")
    shown = {key: value for key in ("repo", "base_commit") if isinstance(value := row.values.get(key), str)}
    prompt = INSTRUCTION.format(repository=repository, problem=problem.strip())
    return Task(Public(id=task_id, prompt=prompt, metadata={**shown}), secret)


def spec_of(secret: SweSecret, config: SweConfig) -> SandboxSpec:
    """The container of a repository, for the agent and again for the tests."""
    return SandboxSpec(
        image=secret.image,
        profile="root-compat",
        network=config.network,
        resources=Resources(
            cpus=config.cpus,
            memory_bytes=config.memory_mb * MIB,
            pids=config.pids,
            disk_bytes=config.storage_mb * MIB,
        ),
        user="root",
        workdir=secret.repository,
        scratch=(),
        has_writable_root=True,
    )


def patched(patch: str) -> frozenset[str]:
    """The paths that a patch changes."""
    return frozenset(path.strip() for path in _PATCHED.findall(patch) if path.strip() != "/dev/null")


def _published(task_id: str, row: Row) -> Published | None:
    """How to run a row of a published data set; None if the row names an image or a command itself."""
    if any(row.values.get(column) for column in ("test_command", "build", "test_files")):
        return None
    texts = (str(row.values.get(column) or "") for column in ("repo", "instance_id", "version", "test_patch"))
    repository, instance_id, version, test_patch = texts
    return published(repository, instance_id or task_id, version, test_patch)


def _running(row: Row, known: Published | None) -> dict[str, Any]:
    if known is None:
        command = _text(row, "test_command", "python3 -m pytest -q")
        return {"test_command": command, "runner": "pytest" if "pytest" in command else "plain"}
    return {
        "test_command": known.command,
        "runner": known.runner,
        "prelude": known.prelude,
        "test_names": known.files,
        "is_published": True,
    }


def _image(row: Row, known: Published | None) -> str | Build:
    for column in ("image", "docker_image", "image_name"):
        value = row.values.get(column)
        if isinstance(value, str) and value:
            return value
    folder = row.values.get("build")
    if not isinstance(folder, str) or not folder:
        if known is not None:
            return known.image
        raise row.error(
            "missing column 'image' (an image's name) or 'build' (a folder with a Dockerfile); without them 'repo' "
            "must be one of SWE-bench or SWE-Gym"
        )
    context = Path(row.file).parent / folder
    if not (context / "Dockerfile").is_file():
        raise row.error(f"column 'build' = {folder!r}: there is no Dockerfile in {context}")
    return Build(context=context.resolve())


def _text(row: Row, column: str, default: str | None) -> str:
    value = row.values.get(column)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        known = ", ".join(str(name) for name in row.values)
        raise row.error(f"column {column!r} must be text, this is {value!r:.60}; the columns are: {known}")
    return value


def _names(row: Row, columns: tuple[str, ...], *, required: bool = True) -> tuple[str, ...]:
    value: Any = next((row.values[column] for column in columns if row.values.get(column) is not None), None)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise row.error(f"column {columns[0]!r} must be a list of tests, this is {value!r:.60}") from None
    names = cast("list[Any]", [] if value is None else value)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]  # anybody's data
        raise row.error(f"column {columns[0]!r} must be a list of tests, this is {value!r:.60}")
    if required and not names:
        raise row.error(f"column {columns[0]!r} names no test; one that fails at first must be there")
    return tuple(names)


def _files(row: Row) -> dict[str, str]:
    value: Any = row.values.get("test_files")
    files = cast("dict[Any, Any]", {} if value is None else value)
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
        raise row.error(f"column 'test_files' must be texts by path, this is {value!r:.60}")
    for path in files:
        if str(path).startswith("/") or ".." in str(path).split("/"):
            raise row.error(f"column 'test_files': {path!r} leads out of the repository")
    return {str(path): text for path, text in files.items()}
