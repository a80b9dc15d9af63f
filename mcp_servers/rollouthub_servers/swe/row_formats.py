"""The table of data sets whose rows `swe` plays: which columns each has, and what they are for a task.

From the projects' own programs: SWE-bench and SWE-Gym (`swebench.harness`), SWE-rebench's fork of it and its
`scripts/eval.py`, SWE-smith (`swesmith.harness`, `swesmith.profiles`), and R2E-Gym (`r2egym.agenthub.runtime`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rollouthub.authoring.rows import Row
from rollouthub.sandbox import Build
from rollouthub_servers.swe.commit_patch import patch_of
from rollouthub_servers.swe.junit_report import decoded, files_of
from rollouthub_servers.swe.published_data_sets import (
    ACTIVATE,
    R2E_VARIABLES,
    REBENCH_VARIABLES,
    VARIABLES,
    Published,
    exports,
    published,
    smith_command,
    smith_image,
)
from rollouthub_servers.swe.row_columns import files, is_below, mapping, names, text, word

_FAIL, _PASS = ("FAIL_TO_PASS", "fail_to_pass"), ("PASS_TO_PASS", "pass_to_pass")
_OTHER_RUNS = ("before_repo_set_cmd", "selected_test_files_to_run", "test_cmds", "run_script", "eval_script")
"""Columns of further data sets that say how tests are run, which is not done here."""
_ISSUE = ("[ISSUE]", "[/ISSUE]")
_COLOUR = re.compile(r"\x1b\[\d{1,3}m")
_R2E_FOLDER = "r2e_tests"
_R2E_FILES = (
    _R2E_FOLDER,
    "run_tests.sh",
    "expected_test_output.json",
    "execution_result.json",
    "parsed_commit.json",
    "modified_files.json",
    "modified_entities.json",
    "syn_issue.json",
)
"""What the images of R2E-Gym hold of the answer, below the repository."""
_R2E_OUTCOMES = ("PASSED", "FAILED", "ERROR")
_R2E_PRINTED = frozenset({"tornado"})
"""Repositories of R2E-Gym with a runner of their own, whose printed lines are its only report."""


@dataclass(frozen=True)
class RowFormat:
    """How the rows of a family of data sets become tasks."""

    name: str
    marks: frozenset[str]
    """Columns by which its rows are known."""
    lacks: frozenset[str]
    """Columns that its rows do not have."""
    columns: tuple[str, ...]
    """Columns that are read; all others are carried along in the task's secret."""
    read: Callable[[Row], dict[str, Any]]
    """The fields of a task's secret."""

    def fits(self, row: Row) -> bool:
        """Whether a row is of this format."""
        there = {column for column, value in row.values.items() if value is not None}
        return self.marks <= there and not self.lacks & there


def format_of(row: Row) -> RowFormat:
    """The first format that a row fits; the last one fits all."""
    return next(each for each in FORMATS if each.fits(row))


def problem_of(row: Row) -> str:
    """What is asked for; in R2E-Gym's rows it stands between two marks.

    Raises:
        DataError: there is no problem.
    """
    problem = text(row, "problem_statement")
    before, mark, after = problem.partition(_ISSUE[0])
    return (after.partition(_ISSUE[1])[0] if mark and not before.strip() else problem).strip()


def _swe_bench(row: Row) -> dict[str, Any]:
    test_patch, test_files = text(row, "test_patch", ""), files(row, "test_files")
    known = _published(row, test_patch)
    if known is None and not row.values.get("test_command"):
        for column in _OTHER_RUNS:
            if row.values.get(column):
                raise row.error(f"column {column!r} runs the tests in a way of its own; give the row a 'test_command'")
    if not test_patch and not test_files:
        raise row.error("there are no hidden tests: neither of the columns 'test_patch' and 'test_files' is there")
    return {
        "image": _image(row, known),
        "repository": text(row, "repo_path", "/testbed"),
        "fail_to_pass": names(row, _FAIL),
        "pass_to_pass": names(row, _PASS, required=False),
        **_running(row, known),
        "test_patch": test_patch,
        "test_files": test_files,
        "patch": text(row, "patch", ""),
    }


def _swe_rebench(row: Row) -> dict[str, Any]:
    config = mapping(row, "install_config")
    parser = config.get("log_parser")
    if not isinstance(parser, str) or "pytest" not in parser:
        raise row.error(f"column 'install_config': log_parser = {parser!r:.60}; only reports of pytest are read")
    before, commands = (_commands(row, config, key) for key in ("eval_commands", "test_cmd"))
    if not commands or "pytest" not in commands[-1]:
        raise row.error(f"column 'install_config': test_cmd = {commands!r:.60}; its last command must be pytest's")
    image, second = row.values.get("docker_image"), row.values.get("image_name")
    if not image and not second:
        raise row.error("columns 'docker_image' and 'image_name' are empty: no image was published for this row")
    name = text(row, "repo").rpartition("/")[2]
    if not image and (not name or not is_below(name)):
        raise row.error(f"column 'repo' = {row.values['repo']!r:.60}: it must be OWNER/NAME, which names the folder")
    read = ("log_parser", "test_cmd", "eval_commands")
    return {
        "image": word(row, "docker_image" if image else "image_name"),
        "repository": "/testbed" if image else f"/{name}",
        "fail_to_pass": names(row, _FAIL),
        "pass_to_pass": names(row, _PASS, required=False),
        "test_command": commands[-1],
        "prelude": "\n".join([ACTIVATE if image else exports(REBENCH_VARIABLES), *before, *commands[:-1]]),
        "variables": VARIABLES if image else REBENCH_VARIABLES,
        "is_published": True,
        "test_patch": text(row, "test_patch"),
        "patch": text(row, "patch", ""),
        "carried": {"install_config": {key: value for key, value in config.items() if key not in read}},
    }


def _swe_smith(row: Row) -> dict[str, Any]:
    failing, passing = names(row, _FAIL), names(row, _PASS, required=False)
    for test in (*failing, *passing):
        if ".py::" not in test or not is_below(test):
            column = _FAIL[0] if test in failing else _PASS[0]
            raise row.error(f"column {column!r}: {test!r:.80} is no test of pytest; only Python's rows are played")
    repository = text(row, "repo", "").rpartition("/")[2] or text(row, "instance_id")
    return {
        "image": smith_image(word(row, "image_name")),
        "fail_to_pass": failing,
        "pass_to_pass": passing,
        "test_command": smith_command(repository),
        "prelude": ACTIVATE,
        "variables": VARIABLES,
        "is_published": True,
        "bug": text(row, "patch"),
        "patch": text(row, "patch"),
        "is_reversed": True,
        "withheld": tuple(files_of(failing)),
        "own_tests": tuple(files_of(passing)),
    }


def _r2e_gym(row: Row) -> dict[str, Any]:
    repository = text(row, "repo_name", "")
    if repository in _R2E_PRINTED:
        raise row.error(f"column 'repo_name' = {repository!r}: its runner's printed lines would be the only report")
    expected = mapping(row, "expected_output_json")
    outcomes = {decoded(_COLOUR.sub("", key)).split(" - ")[0]: outcome for key, outcome in expected.items()}
    if "PASSED" not in outcomes.values() or not all(outcome in _R2E_OUTCOMES for outcome in outcomes.values()):
        raise row.error(
            f"column 'expected_output_json' must hold PASSED, FAILED or ERROR for each test, and one PASSED; "
            f"this is {row.values['expected_output_json']!r:.60}"
        )
    commit = row.values.get("parsed_commit_content")
    return {
        "image": word(row, "docker_image"),
        "fail_to_pass": tuple(outcomes),
        "outcomes": outcomes,
        "test_command": "bash run_tests.sh",
        "runner": "outcomes",
        "prelude": exports(R2E_VARIABLES),
        "variables": R2E_VARIABLES,
        "is_published": True,
        "patch": text(row, "patch", "") or ("" if commit is None else patch_of(row, "parsed_commit_content")),
        "withheld": _R2E_FILES,
        "tests_folder": _R2E_FOLDER,
    }


def _published(row: Row, test_patch: str) -> Published | None:
    """How to run a row of SWE-bench or SWE-Gym; None if the row names an image or a command itself."""
    if any(row.values.get(column) for column in ("test_command", "build", "test_files")):
        return None
    repository, instance_id, version = (
        str(row.values.get(column) or "") for column in ("repo", "instance_id", "version")
    )
    return published(repository, instance_id, version, test_patch)


def _running(row: Row, known: Published | None) -> dict[str, Any]:
    if known is None:
        command = text(row, "test_command", "python3 -m pytest -q")
        return {"test_command": command, "runner": "pytest" if "pytest" in command else "plain"}
    return {
        "test_command": known.command,
        "runner": known.runner,
        "prelude": known.prelude,
        "test_names": known.files,
        "variables": VARIABLES,
        "is_published": True,
    }


def _image(row: Row, known: Published | None) -> str | Build:
    for column in ("image", "docker_image", "image_name"):
        value = row.values.get(column)
        if isinstance(value, str) and value:
            return value
    folder = row.values.get("build")
    if not isinstance(folder, str) or not folder:
        if known is not None and row.values.get("instance_id"):
            return known.image
        raise row.error(
            "missing column 'image' (an image's name) or 'build' (a folder with a Dockerfile); without them 'repo' "
            "must be one of SWE-bench or SWE-Gym, and 'instance_id' be there"
        )
    context = Path(row.file).parent / folder
    if not (context / "Dockerfile").is_file():
        raise row.error(f"column 'build' = {folder!r}: there is no Dockerfile in {context}")
    return Build(context=context.resolve())


def _commands(row: Row, config: dict[str, Any], key: str) -> list[str]:
    """The commands that an installation's settings name, one or a list of them."""
    value: Any = config.get(key) or []
    commands = cast("list[Any]", value if isinstance(value, list) else [value])
    if not all(isinstance(command, str) for command in commands):
        raise row.error(f"column 'install_config': {key} = {value!r:.60}; it must be a command or a list of them")
    return commands


_COMMON = ("instance_id", "problem_statement", "repo", "base_commit", "patch", *_FAIL, *_PASS)
FORMATS: tuple[RowFormat, ...] = (
    RowFormat(
        "R2E-Gym",
        marks=frozenset({"expected_output_json"}),
        lacks=frozenset(),
        columns=(
            "commit_hash",
            "problem_statement",
            "repo_name",
            "docker_image",
            "expected_output_json",
            "parsed_commit_content",
            "patch",
        ),
        read=_r2e_gym,
    ),
    RowFormat(
        "SWE-rebench",
        marks=frozenset({"install_config"}),
        lacks=frozenset(),
        columns=(*_COMMON, "test_patch", "install_config", "docker_image", "image_name"),
        read=_swe_rebench,
    ),
    RowFormat(
        "SWE-smith",
        marks=frozenset({"image_name", "patch"}),
        lacks=frozenset({"test_patch", "test_files", "test_command", "image"}),
        columns=(*_COMMON, "image_name"),
        read=_swe_smith,
    ),
    RowFormat(
        "SWE-bench",
        marks=frozenset(),
        lacks=frozenset(),
        columns=(
            *_COMMON,
            *("version", "test_patch", "test_files", "test_command"),
            *("repo_path", "image", "docker_image", "image_name", "build"),
        ),
        read=_swe_bench,
    ),
)
"""The formats, in the order in which a row is compared with them."""
