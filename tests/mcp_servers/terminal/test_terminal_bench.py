"""`hub import terminal_bench`: old tasks written as Harbor's, and what would be lost named, never dropped."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import Candidate, Identity, ImportSource, find_importer
from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.harbor import load_task
from tests.mcp_servers.containers import Open

IMAGE = "debian:bookworm-slim"
SERVICE: dict[str, Any] = {
    "build": {"dockerfile": "Dockerfile"},
    "image": "${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}",
    "container_name": "${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}",
    "command": ["sh", "-c", "sleep infinity"],
    "environment": ["TEST_DIR=${T_BENCH_TEST_DIR}", "GREETING=hi"],
    "volumes": ["${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}"],
}


def write_task(place: Path, service: dict[str, Any] | None = None, dockerfile: str = "", **settings: Any) -> Path:
    """A task of the old format: write `hi` to a file."""
    (place / "tests").mkdir(parents=True)
    values = {"instruction": "Write $GREETING to /app/hi.txt.", "difficulty": "easy", "tags": ["files"], **settings}
    (place / "task.yaml").write_text(yaml.safe_dump(values))
    services = {"client": SERVICE | (service or {})}
    (place / "docker-compose.yaml").write_text(yaml.safe_dump({"services": services}))
    (place / "Dockerfile").write_text(dockerfile or f"FROM {IMAGE}\nWORKDIR /app\nCOPY seed.txt /app/\n")
    (place / "seed.txt").write_text("seed\n")
    (place / "tests" / "expected.txt").write_text("hi\n")
    (place / "run-tests.sh").write_text('#!/bin/bash\ncmp /app/hi.txt "$TEST_DIR/expected.txt"\n')
    (place / "solution.sh").write_text('#!/bin/bash\necho "$GREETING" > /app/hi.txt\n')
    return place


def look(folder: Path, **settings: Any) -> dict[str, Candidate]:
    """What of a folder can be played, by id."""
    found = find_importer("terminal_bench").look(ImportSource(str(folder), "folder"), {"network": "none", **settings})
    return {each.id: each for each in found}


def test_a_task_is_written_as_harbors(tmp_path: Path) -> None:
    write_task(tmp_path / "old" / "greet", max_agent_timeout_sec=90, max_test_timeout_sec=30, author_name="somebody")
    assert look(tmp_path / "old")["greet"].reasons == ()
    assert look(tmp_path / "old" / "greet")["greet"].runs, "a single task is one, too"
    importer, source = find_importer("terminal_bench"), ImportSource(str(tmp_path / "old"), "folder")
    out = tmp_path / "new"
    importer.write(source, ["greet"], {"network": "none"}, out, Identity())
    task = load_task("greet", out / "tasks" / "greet")
    assert (task.settings.agent.timeout_sec, task.settings.verifier.timeout_sec) == (90, 30)
    assert task.settings.environment.env == {"GREETING": "hi"}
    assert task.settings.metadata == {"author_name": "somebody", "difficulty": "easy", "tags": ["files"]}
    assert task.instruction(task.steps[0]) == "Write $GREETING to /app/hi.txt."
    built = {path.name for path in (out / "tasks" / "greet" / "environment").iterdir()}
    assert built == {"Dockerfile", "seed.txt"}, "neither tests nor solution are in the image's context"


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ({"privileged": True}, "privileged = true is not offered"),
        ({"ports": ["80:80"]}, 'ports = ["80:80"] is not offered'),
        ({"volumes": ["/var/run/docker.sock:/var/run/docker.sock"]}, "volumes = "),
        ({"command": ["nginx"]}, "command = "),
        ({"environment": ["KEY=${KEY}"]}, "environment.KEY is a variable of the command that starts the container"),
        ({"build": {"context": ".."}}, "build.context leads out of the task"),
        ({"build": {"args": {"A": 1}}}, "build.args is not offered"),
    ],
)
def test_what_a_container_would_lose_is_named(service: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write_task(tmp_path / "one", service)
    assert any(reason in each for each in look(tmp_path)["one"].reasons), look(tmp_path)


def test_what_cannot_be_graded_alike_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    write_task(tmp_path / "good")
    write_task(tmp_path / "parser", parser_name="swebench")
    write_task(tmp_path / "shell", run_tests_in_same_shell=True)
    write_task(tmp_path / "leak", dockerfile=f"FROM {IMAGE}\nCOPY solution.sh /\n")
    (write_task(tmp_path / "untested") / "run-tests.sh").unlink()
    (write_task(tmp_path / "broken") / "task.yaml").write_text("instruction: [")
    (write_task(tmp_path / "link") / "tests" / "out").symlink_to("/etc/passwd")
    several = write_task(tmp_path / "several") / "docker-compose.yaml"
    several.write_text(yaml.safe_dump({"services": {"client": SERVICE, "db": {"image": "postgres"}}}))
    found = look(tmp_path)
    assert [name for name, each in found.items() if each.runs] == ["good"]
    reasons = {name: " ".join(each.reasons) for name, each in found.items()}
    for name, said in {
        "parser": "parser_name = 'swebench'",
        "shell": "run_tests_in_same_shell = True",
        "leak": "puts the answer into the agent's image",
        "untested": "run-tests.sh is missing",
        "broken": "task.yaml cannot be read",
        "link": "leads out of the task",
        "several": "client, db: several containers",
    }.items():
        assert said in reasons[name], reasons


async def test_the_oracle_solves_it_in_a_container_and_nothing_does_not(play: Open, tmp_path: Path) -> None:
    write_task(tmp_path / "old" / "greet")
    find_importer("terminal_bench").write(
        ImportSource(str(tmp_path / "old"), "folder"), ["greet"], {"network": "none"}, tmp_path / "new", Identity()
    )
    data = str(tmp_path / "new" / "tasks")
    async with play(Terminal, TerminalConfig(data=data, network="none")) as player:
        assert "GREETING=hi" in await player.bash("env; ls /tests /solution")
        await player.play_reference()
        assert (await player.end()).reward == 1
    async with play(Terminal, TerminalConfig(data=data, network="none")) as player:
        assert "No such file" in await player.bash("ls /tests; ls /solution; echo ho > /app/hi.txt")
        assert (await player.end()).reward == 0


def test_tests_that_the_image_is_built_from_go_into_its_context(tmp_path: Path) -> None:
    write_task(tmp_path / "old" / "one", dockerfile=f"FROM {IMAGE}\nCOPY ./tests/expected.txt /\n")
    find_importer("terminal_bench").write(
        ImportSource(str(tmp_path / "old"), "folder"), ["one"], {"network": "none"}, tmp_path / "new", Identity()
    )
    assert (tmp_path / "new" / "tasks" / "one" / "environment" / "tests" / "expected.txt").is_file()


def test_a_folder_without_such_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.yaml"):
        look(tmp_path)
