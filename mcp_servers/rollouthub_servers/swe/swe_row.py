"""Makes a task of a row of a data set; which data sets there are is a table in `row_formats`."""

import json
import re
from typing import ClassVar

from pydantic import Field, JsonValue

from rollouthub import Public, Secret, Task
from rollouthub.authoring.rows import Row
from rollouthub.sandbox import MIB, Build, Network, Resources, SandboxSpec
from rollouthub_servers.swe.published_data_sets import Runner
from rollouthub_servers.swe.row_formats import format_of, problem_of
from rollouthub_servers.table_config import TableConfig
from rollouthub_servers.terminal.config import ShellConfig

INSTRUCTION = """\
The repository in {repository} has a problem. Solve it there. Hidden tests decide whether it is solved; changes to the
repository's own tests do not count.

{problem}"""
_PATCHED = re.compile(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)


class SweConfig(ShellConfig, TableConfig):
    """The data set, and the resources of a repository's container."""

    id_columns: ClassVar[tuple[str, ...]] = ("instance_id", "commit_hash")

    id_column: str | None = None
    """Column of the task's id; by default instance_id or commit_hash if the row has one, else SPLIT/INDEX."""
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
    repository: str = "/testbed"
    """Path of the repository in the container."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...] = ()
    outcomes: dict[str, str] = {}
    """Test → how it must end (`PASSED`, `FAILED`, `ERROR`), for the runner of that name."""
    test_command: str
    runner: Runner = "pytest"
    prelude: str = ""
    """Shell code that bash runs before the command; if empty, the shell is `/bin/sh`."""
    variables: dict[str, str] = {}
    """Further variables of the agent's commands."""
    test_names: tuple[str, ...] = ()
    """Arguments for the runners of Django and SymPy."""
    is_published: bool = False
    """Whether image and runner are those of a published data set."""
    test_patch: str = ""
    test_files: dict[str, str] = {}
    """Path below the repository → text of a test file."""
    own_tests: tuple[str, ...] = ()
    """Test files that the image has, below the repository."""
    withheld: tuple[str, ...] = ()
    """What the image has of tests and answers below the repository, and the agent's container does not."""
    tests_folder: str = ""
    """A folder of the image's root with hidden tests, which are run below the repository."""
    bug: str = ""
    """A patch that puts the problem into the image."""
    patch: str = ""
    is_reversed: bool = False
    """Whether it is taking the known patch back that solves the problem."""
    carried: dict[str, JsonValue] = {}
    """The row's other columns."""

    @property
    def hidden(self) -> frozenset[str]:
        """Paths that the hidden tests add or change."""
        return frozenset((*self.test_files, *self.own_tests, *self.withheld)) | patched(self.test_patch)


def make_task(task_id: str, row: Row) -> Task[Public, Secret]:
    """Make the task of a row.

    Raises:
        DataError: a column is missing or invalid.
    """
    of, problem = format_of(row), problem_of(row)
    fields = of.read(row)
    others = {str(key): value for key, value in row.values.items() if key not in of.columns and value is not None}
    secret = SweSecret(**fields | {"carried": fields.get("carried", {}) | json.loads(json.dumps(others, default=str))})
    shown = {key: value for key in ("repo", "base_commit") if isinstance(value := row.values.get(key), str)}
    prompt = INSTRUCTION.format(repository=secret.repository, problem=problem)
    return Task(Public(id=task_id, prompt=prompt, metadata={**shown}), secret)


def spec_of(secret: SweSecret, config: SweConfig, image: str | Build) -> SandboxSpec:
    """The container of a repository, for the agent and again for the tests."""
    return SandboxSpec(
        image=image,
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
