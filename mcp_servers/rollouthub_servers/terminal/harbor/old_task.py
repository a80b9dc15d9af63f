"""Converts Terminal-Bench 1 tasks (`task.yaml`, a compose file, `run-tests.sh`) to Harbor tasks.

A task that asks for something that Harbor's format or this hub does not support is refused; nothing is dropped.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollouthub_servers.foreign.yaml_text import read_yaml
from rollouthub_servers.terminal.harbor.dataset import OLD_FILE, TASK_FILE
from rollouthub_servers.terminal.harbor.task_files import folder_files

COMPOSE = ("docker-compose.yaml", "docker-compose.yml")
TESTS_SCRIPT = "run-tests.sh"
MOST_BYTES = 1 << 20
"""Most bytes of a `task.yaml` or a compose file."""
_NOT_BUILT = frozenset({OLD_FILE, *COMPOSE, "tests", TESTS_SCRIPT, "solution.sh", "solution.yaml"})
"""Files of the task folder that are not part of the image's build context."""
_TEST = f"""\
#!/bin/bash
# Written by the import: Terminal-Bench 1 calls a task solved when its tests' script ends well.
export TEST_DIR=/tests
mkdir -p /logs/verifier
if bash /tests/{TESTS_SCRIPT}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
_IDLE = frozenset({"sh -c sleep infinity", "sleep infinity", "bash -c sleep infinity", "tail -f /dev/null"})
_OWN_VOLUMES = frozenset(
    {
        "${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}",
        "${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}",
    }
)
_OWN_VARIABLES = frozenset({"TEST_DIR"})
_UNIMPORTANT = frozenset({"container_name", "tty", "stdin_open", "expose", "init", "stop_grace_period"})
"""Keys of a compose service that have no effect on a single container with a supervisor."""


class NotConverted(Exception):
    """A task cannot be converted; the arguments are the reasons."""


class _OldTask(BaseModel):
    """The content of `task.yaml`; other keys become metadata."""

    model_config = ConfigDict(extra="allow")

    instruction: str = Field(min_length=1)
    max_agent_timeout_sec: float = Field(default=360.0, gt=0)
    max_test_timeout_sec: float = Field(default=60.0, gt=0)
    parser_name: Literal["pytest"] = "pytest"
    run_tests_in_same_shell: Literal[False] = False


def convert(place: Path, out: Path) -> None:
    """Convert a task folder to a Harbor task in another folder.

    Raises:
        NotConverted: with a reason for each thing that would be lost.
        DataError: a link leads out of the task.
    """
    task = _settings(place)
    service = _service(place)
    dockerfile, context = _build(place, service)
    reasons = list(_lost(service))
    if dockerfile is not None:
        reasons += _answers_in_image(dockerfile)
    if not (place / TESTS_SCRIPT).is_file():
        reasons.append(f"{TESTS_SCRIPT} is missing")
    own = (OLD_FILE, *COMPOSE, TESTS_SCRIPT, "solution.sh")
    reasons += [
        f"{name} is a link that leads out of the task"
        for name in own
        if not (place / name).resolve().is_relative_to(place.resolve())
    ]
    if reasons:
        raise NotConverted(*reasons)
    environment = out / "environment"
    environment.mkdir(parents=True)
    settings: dict[str, Any] = {
        "version": "1.0",
        "metadata": json.loads(json.dumps(task.model_extra or {}, default=str)),
        "agent": {"timeout_sec": task.max_agent_timeout_sec},
        "verifier": {"timeout_sec": task.max_test_timeout_sec},
        "environment": {"env": _variables(service)},
    }
    if dockerfile is None:
        settings["environment"]["docker_image"] = service["image"]
    else:
        _copy(context, environment, _NOT_BUILT if context == place else frozenset())
        (environment / "Dockerfile").write_bytes(dockerfile.read_bytes())
        if "tests" in _copied(dockerfile):
            _copy(place / "tests", environment / "tests")
    if "working_dir" in service:
        settings["environment"]["workdir"] = str(service["working_dir"])
    (out / "instruction.md").write_text(task.instruction)
    _copy(place / "tests", out / "tests")
    shutil.copy(place / TESTS_SCRIPT, out / "tests" / TESTS_SCRIPT)
    (out / "tests" / "test.sh").write_text(_TEST)
    if (place / "solution.sh").is_file():
        (out / "solution").mkdir()
        shutil.copy(place / "solution.sh", out / "solution" / "solve.sh")
    # Last: what has it is a whole task.
    (out / TASK_FILE).write_text(tomli_w.dumps(_without_none(settings)))


def _settings(place: Path) -> _OldTask:
    try:
        return _OldTask.model_validate(_yaml(place / OLD_FILE))
    except ValidationError as error:
        raise NotConverted(
            *(
                f"{OLD_FILE}: {'.'.join(map(str, each['loc']))} = {each['input']!r:.80}: {each['msg']}"
                if each["type"] != "missing"
                else f"{OLD_FILE}: {'.'.join(map(str, each['loc']))} is missing"
                for each in error.errors(include_url=False)
            )
        ) from None


def _yaml(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise NotConverted(f"{file.name} is longer than {MOST_BYTES:,} bytes")
        found = read_yaml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise NotConverted(f"{file.name} cannot be read: {str(error).splitlines()[0]:.200}") from None
    if not isinstance(found, dict):
        raise NotConverted(f"{file.name} holds no table")
    return cast(dict[str, Any], found)


def _service(place: Path) -> dict[str, Any]:
    """The only service in the task's compose file; empty if there is no such file."""
    file = next((place / name for name in COMPOSE if (place / name).is_file()), None)
    if file is None:
        return {}
    compose = _yaml(file)
    services = compose.get("services")
    if not isinstance(services, dict) or not services:
        raise NotConverted(f"{file.name}: services names no container")
    named = cast(dict[str, Any], services)
    others = [key for key in compose if key not in ("services", "version", "name")]
    if others:
        raise NotConverted(f"{file.name}: {', '.join(map(str, others))}: not offered for one container")
    if len(named) > 1:
        raise NotConverted(
            f"{file.name}: {', '.join(map(str, named))}: several containers for one task are not offered"
        )
    service = next(iter(named.values()))
    if not isinstance(service, dict):
        raise NotConverted(f"{file.name}: services.{next(iter(named))} is no table")
    return cast(dict[str, Any], service)


def _build(place: Path, service: Mapping[str, Any]) -> tuple[Path | None, Path]:
    """The Dockerfile (None if the service names an image), and the folder of its build context."""
    build: Any = service.get("build", None if "image" in service and not (place / "Dockerfile").is_file() else ".")
    if build is None:
        if "${" in str(service["image"]):
            raise NotConverted(
                "docker-compose.yaml: the image is a variable of the command that starts the container, and there is "
                "no Dockerfile"
            )
        return None, place
    told = cast(dict[str, Any], build) if isinstance(build, dict) else {"context": build}
    if unknown := [key for key in told if key not in ("context", "dockerfile")]:
        raise NotConverted(f"docker-compose.yaml: build.{unknown[0]} is not offered")
    context = (place / str(told.get("context", "."))).resolve()
    dockerfile = (context / str(told.get("dockerfile", "Dockerfile"))).resolve()
    for path, what in ((context, "build.context"), (dockerfile, "build.dockerfile")):
        if not path.is_relative_to(place.resolve()):
            raise NotConverted(f"docker-compose.yaml: {what} leads out of the task")
    if not dockerfile.is_file():
        raise NotConverted(f"{dockerfile.relative_to(place.resolve())} is missing")
    return dockerfile, place if context == place.resolve() else context


def _lost(service: Mapping[str, Any]) -> Iterator[str]:
    """The settings of the service that a conversion would lose."""
    for key, value in service.items():
        if key in ("build", "image", "environment", "working_dir") or key in _UNIMPORTANT:
            continue
        if key == "command" and _words(value) in _IDLE:
            continue
        if key == "volumes" and isinstance(value, list) and set(map(str, cast(list[Any], value))) <= _OWN_VOLUMES:
            continue
        if key == "platform" and value == "linux/amd64":
            continue
        yield f"docker-compose.yaml: {key} = {json.dumps(value, default=str):.120} is not offered"


def _words(value: object) -> str:
    return " ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value).replace('"', "")


def _variables(service: Mapping[str, Any]) -> dict[str, str]:
    """The service's variables, without those that Terminal-Bench itself sets.

    Raises:
        NotConverted: one is to be set by the user who starts the container.
    """
    given: Any = service.get("environment") or {}
    entries = (
        cast(dict[str, Any], given).items()
        if isinstance(given, dict)
        else [str(entry).partition("=")[::2] for entry in cast(list[Any], given)]
    )
    variables = {str(name): str(value) for name, value in entries if str(name) not in _OWN_VARIABLES}
    for name, value in variables.items():
        if "${" in value or value == "None" or not value:
            raise NotConverted(
                f"docker-compose.yaml: environment.{name} is a variable of the command that starts the container"
            )
    return variables


def _copied(dockerfile: Path) -> set[str]:
    """First path components that a Dockerfile copies from its context into the image."""
    found: set[str] = set()
    for line in dockerfile.read_text("utf-8", errors="replace").splitlines():
        words = line.split()
        if words and words[0].upper() in ("COPY", "ADD") and not any(word.startswith("--from=") for word in words):
            found |= {word.removeprefix("./").partition("/")[0] for word in words[1:-1] if not word.startswith("--")}
    return found


def _answers_in_image(dockerfile: Path) -> Iterator[str]:
    for name in ("solution.sh", "solution.yaml"):
        if name in _copied(dockerfile):
            yield f"Dockerfile: COPY {name} puts the answer into the agent's image"


def _copy(source: Path, out: Path, left_out: frozenset[str] = frozenset()) -> None:
    """Copy a folder's files; links within the task are followed.

    Raises:
        DataError: a link leads out of the task.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        return
    for file in folder_files(source, source):
        if file.path.partition("/")[0] in left_out:
            continue
        target = out / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(file.mode)


def _without_none(value: Any) -> Any:
    """Remove None values, which TOML cannot represent, and empty tables."""
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return {key: _without_none(each) for key, each in table.items() if each is not None and each != {}}
    if isinstance(value, list):
        return [_without_none(each) for each in cast(list[Any], value) if each is not None]
    return value
