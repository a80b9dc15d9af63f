"""Harbor's task format: what is read, what is refused, and that refusals name the file and the key."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow
from rollouthub.errors import ConfigError, DataError
from rollouthub.sandbox import MIB, Build
from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.containers import agent_spec, verifier_spec
from rollouthub_servers.terminal.harbor import HarborTask, find_tasks, load_task
from rollouthub_servers.terminal.unsupported_features import refusals

TASKS = Path(__file__).parent.parent / "harbor_tasks"
OFFLINE = '[environment]\nnetwork_mode = "no-network"\n'


def make(folder: Path, settings: str = OFFLINE, **files: str) -> HarborTask:
    """A task's folder with these settings; files by path, `/` written as `__`."""
    standing = {
        "instruction.md": "Do it.",
        "environment/Dockerfile": "FROM debian:bookworm-slim\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
    }
    for path, text in {**standing, **{path.replace("__", "/"): text for path, text in files.items()}}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "task.toml").write_text(settings)
    return load_task("made", folder)


def why(task: HarborTask, caller: dict[str, str] | None = None, **settings: Any) -> str:
    return "\n".join(refusals(task, TerminalConfig(**settings), caller or {}))


# --- reading ------------------------------------------------------------------------------------------------------


def test_the_old_schema_is_read() -> None:
    task = load_task("greeting", TASKS / "greeting")
    world = task.settings.environment
    assert (task.settings.schema_version, world.memory_mb, world.storage_mb) == ("1.0", 512, 1024)
    assert world.declared_network == "no-network"
    assert why(task) == ""


def test_the_new_schema_is_read() -> None:
    task = load_task("two_steps", TASKS / "two_steps")
    assert [step.name for step in task.steps] == ["primes", "sum"]
    assert task.steps[0].section.gates == {"reward": 1.0}
    assert sorted(file.path for file in task.tests(task.steps[0])) == ["lib.sh", "test.sh"]
    assert [file.path for file in task.workdir_files(task.steps[1])] == ["note.txt"]


def test_marks_against_training_are_not_shown_to_the_agent() -> None:
    task = load_task("greeting", TASKS / "greeting")
    assert task.instruction(task.steps[0]) == "Write the line `Hello, world!` to the file `/app/hello.txt`."


def test_a_container_is_made_as_the_task_says() -> None:
    task = load_task("plain_user", TASKS / "plain_user")
    spec = agent_spec(task, TerminalConfig(), {})
    assert (spec.profile, spec.user, spec.workdir, spec.network) == ("hardened", "worker", "/srv/work", "none")
    assert spec.environment == {"GREETING": "good morning"}
    assert spec.resources.memory_bytes == 512 * MIB
    assert isinstance(spec.image, Build)
    assert spec.image.context == TASKS / "plain_user" / "environment"


def test_an_agent_that_is_root_gets_the_profile_for_that() -> None:
    spec = agent_spec(load_task("greeting", TASKS / "greeting"), TerminalConfig(), {})
    assert (spec.profile, spec.has_writable_root) == ("root-compat", True)


def test_a_verifier_may_have_an_image_of_its_own(tmp_path: Path) -> None:
    settings = f'{OFFLINE}[verifier.environment]\nnetwork_mode = "no-network"\nmemory_mb = 100\n'
    task = make(tmp_path, settings, tests__Dockerfile="FROM debian:bookworm-slim\nCOPY test.sh /tests/test.sh\n")
    spec = verifier_spec(task, task.steps[0], TerminalConfig(), {})
    assert isinstance(spec.image, Build)
    assert spec.image.context == tmp_path / "tests"
    assert spec.resources.memory_bytes == 100 * MIB


def test_a_ready_image_is_taken_before_the_dockerfile_unless_told_otherwise(tmp_path: Path) -> None:
    task = make(tmp_path, f'{OFFLINE}docker_image = "org/ready:1"\n')
    assert agent_spec(task, TerminalConfig(), {}).image == "org/ready:1"
    assert isinstance(agent_spec(task, TerminalConfig(force_build=True), {}).image, Build)


def test_variables_come_from_the_caller_where_the_task_says_so(tmp_path: Path) -> None:
    task = make(tmp_path, OFFLINE + '[environment.env]\nA = "${A_HERE}"\nB = "${B_HERE:-b}"\nC = "$C"\n')
    assert agent_spec(task, TerminalConfig(), {"A_HERE": "a", "C": "not this"}).environment == {
        "A": "a",
        "B": "b",
        "C": "$C",
    }
    assert "[environment] env.A = '${A_HERE}' asks for a variable of yours" in why(task)


def test_a_task_has_no_variable_of_the_caller_that_was_not_let_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, OFFLINE + '[environment.env]\nA = "${SOME_API_KEY}"\nB = "${OTHER_API_KEY:-none}"\n')
    monkeypatch.setenv("SOME_API_KEY", "a secret")
    monkeypatch.setenv("OTHER_API_KEY", "another secret")
    refused = next(Terminal.tasks(TerminalConfig(data=str(tmp_path)), "test", 0))
    assert isinstance(refused, BadRow)
    assert """--set 'passes=["SOME_API_KEY"]'""" in str(refused.error)
    allowed = TerminalConfig(data=str(tmp_path), passes=("SOME_API_KEY",))
    assert not isinstance(next(Terminal.tasks(allowed, "test", 0)), BadRow)
    (spec, *_) = Terminal.specs(allowed)
    assert spec.environment == {"A": "a secret", "B": "none"}


def test_a_changed_test_is_a_changed_task(tmp_path: Path) -> None:
    config = TerminalConfig(data=str(tmp_path))
    make(tmp_path)
    before = next(Terminal.tasks(config, "test", 0))
    make(tmp_path, tests__fixture="1\n")
    after = next(Terminal.tasks(config, "test", 0))
    assert not isinstance(before, BadRow)
    assert not isinstance(after, BadRow)
    assert before.public == after.public
    assert before.digest != after.digest


# --- finding ------------------------------------------------------------------------------------------------------


def test_tasks_are_found_below_a_folder_in_order() -> None:
    names = ["extra_package", "greeting", "hackable", "many_rewards", "plain_user", "two_steps"]
    assert [task_id for task_id, _ in find_tasks(str(TASKS))] == names
    assert [task_id for task_id, _ in find_tasks(str(TASKS / "greeting"))] == ["greeting"]


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither this folder nor one below it has a task\.toml"):
        find_tasks(str(tmp_path))
    with pytest.raises(ConfigError, match="there is no such folder"):
        find_tasks(str(tmp_path / "none"))


def test_what_is_refused_is_a_bad_row_and_the_rest_can_be_played(tmp_path: Path) -> None:
    make(tmp_path / "good")
    make(tmp_path / "bad", "[environment]\ngpus = 1\n")
    bad, good = Terminal.tasks(TerminalConfig(data=str(tmp_path)), "test", 0)
    assert isinstance(bad, BadRow)
    assert "gpus = 1: where the engine has so many" in str(bad.error)
    assert not isinstance(good, BadRow)
    assert len(Terminal.specs(TerminalConfig(data=str(tmp_path)))) == 1


def test_a_solution_is_known_before_anything_is_played(tmp_path: Path) -> None:
    make(tmp_path / "a_solved", **{"solution/solve.sh": "true"})
    make(tmp_path / "b_unsolved")
    tasks = Terminal.tasks(TerminalConfig(data=str(tmp_path)), "test", 0)
    known = [None if isinstance(task, BadRow) else Terminal.has_reference(task) for task in tasks]
    assert known == [True, False]


# --- refusing -----------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("[environment]\n", {}, "[environment] network_mode is not declared"),
    ('[environment]\nnetwork_mode = "public"\n', {}, "network_mode = 'public'"),
    ("[environment]\nallow_internet = true\n", {}, "network_mode = 'public'"),
    (f'{OFFLINE}[agent]\nnetwork_mode = "public"\n', {}, "[agent] network_mode = 'public'"),
    (f"{OFFLINE}gpus = 2\n", {}, "task.toml: [environment] gpus = 2"),
    (f'{OFFLINE}gpu_types = ["H100"]\n', {}, "gpu_types"),
    (f'{OFFLINE}tpu = {{ type = "v6e", topology = "2x2" }}\n', {}, "TPUs"),
    (f'{OFFLINE}os = "windows"\n', {}, "os = 'windows'"),
    (f'{OFFLINE}skills_dir = "/skills"\n', {}, "skills_dir"),
    (
        f'{OFFLINE}[[environment.mcp_servers]]\nname = "mail"\nurl = "http://mail.example"\n',
        {},
        "[[environment.mcp_servers]] 'mail' url",
    ),
    (f'artifacts = [{{ source = "/x", service = "db" }}]\n{OFFLINE}', {}, "service = 'db': no such service"),
]


@pytest.mark.parametrize(("settings", "config", "reason"), REFUSED, ids=[reason[:40] for *_, reason in REFUSED])
def test_what_is_not_offered_is_refused_by_name(
    tmp_path: Path, settings: str, config: dict[str, Any], reason: str
) -> None:
    found = why(make(tmp_path, settings), **config)
    assert reason in found
    assert found.startswith("task.toml: ")


def test_a_compose_file_is_refused_by_the_name_of_their_file_unless_ignored(tmp_path: Path) -> None:
    name = "environment/docker-compose.yaml"
    task = make(tmp_path, **{name: "services: {db: {}}"})
    assert f"{name}: services.db has neither image nor build" in why(task)
    assert why(task, ignore=(name,)) == ""


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml", "compose.yml"])
def test_a_compose_file_that_the_format_does_not_read_is_data(tmp_path: Path, name: str) -> None:
    assert why(make(tmp_path, **{f"environment/{name}": "services: {}"})) == ""


@pytest.mark.parametrize("key", ["version", "schema_version"])
def test_a_schema_may_be_called_anything(tmp_path: Path, key: str) -> None:
    assert why(make(tmp_path, f'{key} = "2.0"\n{OFFLINE}')) == ""
    with pytest.raises(DataError, match=rf"task\.toml: {key} = 2: "):
        make(tmp_path, f"{key} = 2\n{OFFLINE}")


def test_keys_that_only_describe_are_taken_and_noted(tmp_path: Path) -> None:
    make(tmp_path, f'tags = ["a"]\n{OFFLINE}[task]\ncategory = "x"\ndifficulty_explanation = "long"\n')
    card = next(Terminal.tasks(TerminalConfig(data=str(tmp_path)), "test", 0))
    assert not isinstance(card, BadRow)
    assert card.public.metadata["ignored"] == "task.category, task.difficulty_explanation, tags"


def test_the_caller_may_have_keys_ignored_by_the_name_in_the_file(tmp_path: Path) -> None:
    settings = f"{OFFLINE}gpus = 1\ngravity = 9.81\n[[steps]]\nname = 'a'\n[steps.agent]\nmood = 'good'\n"
    step = {"steps/a/instruction.md": "Do it.", "steps/a/tests/test.sh": "true"}
    with pytest.raises(DataError) as refused:
        make(tmp_path, settings, **step)
    for key, named in (("environment.gravity", "environment.gravity"), ("steps.0.agent.mood", "steps.agent.mood")):
        assert f"the key {key!r} is not known" in str(refused.value)
        assert f"""--set 'ignore=["{named}"]'""" in str(refused.value)
    config = TerminalConfig(data=str(tmp_path), ignore=("environment.gravity", "steps.agent.mood"))
    refused_row = next(Terminal.tasks(config, "test", 0))
    assert isinstance(refused_row, BadRow)
    assert "[environment] gpus = 1" in str(refused_row.error)
    config = TerminalConfig(data=str(tmp_path), ignore=(*config.ignore, "environment.gpus"))
    card = next(Terminal.tasks(config, "test", 0))
    assert not isinstance(card, BadRow)
    assert card.public.metadata["ignored"] == "environment.gravity, steps.agent.mood, environment.gpus"


@pytest.mark.parametrize(
    ("settings", "choice", "agent", "tests"),
    [
        ("[environment]\n", {"network": "none", "verifier_network": "bridge"}, "none", "bridge"),
        ("[environment]\n", {"network": "bridge", "verifier_network": "none"}, "bridge", "none"),
        ("[environment]\n", {"network": "none"}, "none", "none"),
        (f'{OFFLINE}[verifier]\nnetwork_mode = "public"\n', {"verifier_network": "bridge"}, "none", "bridge"),
        (OFFLINE, {"verifier_network": "bridge"}, "none", "none"),
    ],
)
def test_the_tests_network_is_apart_from_the_agents(
    tmp_path: Path, settings: str, choice: dict[str, Any], agent: str, tests: str
) -> None:
    task = make(tmp_path, settings)
    assert why(task, **choice) == ""
    config = TerminalConfig(**choice)
    assert agent_spec(task, config, {}).network == agent
    assert verifier_spec(task, task.steps[0], config, {}).network == tests


def test_a_network_for_the_tests_alone_is_refused_by_its_own_setting(tmp_path: Path) -> None:
    assert "--set verifier_network=bridge" in why(make(tmp_path, f'{OFFLINE}[verifier]\nnetwork_mode = "public"\n'))


@pytest.mark.parametrize(("network", "given"), [("none", "none"), ("bridge", "bridge")])
def test_a_caller_may_say_which_network_a_task_gets(tmp_path: Path, network: Any, given: str) -> None:
    task = make(tmp_path, "[environment]\n")
    assert why(task, network=network) == ""
    assert agent_spec(task, TerminalConfig(network=network), {}).network == given


def test_a_task_without_a_network_never_gets_one(tmp_path: Path) -> None:
    assert agent_spec(make(tmp_path), TerminalConfig(network="bridge"), {}).network == "none"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    task = make(tmp_path)
    for path in ("instruction.md", "environment/Dockerfile"):
        (tmp_path / path).unlink()
    found = why(task)
    assert "instruction.md" in found
    assert "environment/Dockerfile is missing" in found
    (tmp_path / "instruction.md").write_text("Do it.")
    (tmp_path / "tests" / "test.sh").rename(tmp_path / "tests" / "test.bat")
    assert "tests/test.sh is missing (test.bat is for Windows)" in why(task)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("[environment]\ncpu = 2\n", "the key 'environment.cpu' is not known"),
        ("[agents]\n", "the key 'agents' is not known"),
        ("[verifier]\ntimeout_sec = -1\n", "verifier.timeout_sec = -1"),
        ('[environment]\nmemory = "much"\n', "memory = 'much' is no size"),
        ("[environment]\nmemory_mb = 1\n[environment]\n", "cannot be read"),
        ('[[steps]]\nname = "../x"\n', "is no plain folder name"),
        ('artifacts = ["/app/../etc"]\n', "must be a path without '..'"),
        ('[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n', "exclude each other"),
    ],
)
def test_a_key_that_would_steer_is_known_or_refused(tmp_path: Path, settings: str, reason: str) -> None:
    with pytest.raises(DataError, match=r"task\.toml: ") as error:
        make(tmp_path, settings)
    assert reason in str(error.value)


def test_metadata_is_anybodys(tmp_path: Path) -> None:
    task = make(tmp_path, f'{OFFLINE}[metadata]\ndifficulty = "hard"\nsolution_hint = "use sed"\n')
    assert task.shown_metadata == {"difficulty": "hard"}


def test_a_link_out_of_the_task_is_refused(tmp_path: Path) -> None:
    task = make(tmp_path / "task")
    (tmp_path / "answers.txt").write_text("42")
    (tmp_path / "task" / "tests" / "answers.txt").symlink_to(tmp_path / "answers.txt")
    assert "this link leads out of the task" in why(task)


def test_linked_tasks_are_found_and_circles_end(tmp_path: Path) -> None:
    make(tmp_path / "all" / "one")
    make(tmp_path / "all" / "two")
    some = tmp_path / "some"
    some.mkdir()
    (some / "first").symlink_to(tmp_path / "all" / "one")
    (some / "deeper").symlink_to(tmp_path / "all")
    (tmp_path / "all" / "circle").symlink_to(some)
    (some / "itself").symlink_to(some)
    found = find_tasks(str(some))
    assert [task_id for task_id, _ in found] == ["deeper/one", "deeper/two", "first"]
    cards = list(Terminal.tasks(TerminalConfig(data=str(some)), "test", 0))
    assert not [card for card in cards if isinstance(card, BadRow)]


@pytest.mark.parametrize("folder", [".", "hello"])
def test_tasks_of_the_older_format_are_known_and_how_to_convert_them_is_said(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "task.yaml").write_text("instruction: Say hello.\n")
    with pytest.raises(ConfigError, match=r"Terminal-Bench 1 \(task\.yaml\).*hub import terminal_bench"):
        find_tasks(str(tmp_path))
