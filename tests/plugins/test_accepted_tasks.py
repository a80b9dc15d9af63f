"""An env.toml that lists accepted tasks offers these and no others, and settings of its own."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Environment, Public, Secret, Submission, Task
from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.errors import ConfigError
from rollouthub.hosting.local.host import InProcessHost, source_digest
from rollouthub.plugins.accepted_tasks import only_accepted, prompt_digest
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.manifest import AcceptedTasks
from rollouthub.task import BadRow


class WordsConfig(EnvironmentConfig):
    """Any number of words."""

    ending: str = ""
    """What each prompt ends with."""


class Words(Environment[WordsConfig]):
    """Endless tasks, which the seed decides."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        return ("train", "test")

    @classmethod
    def tasks(cls, config: WordsConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        number = 0
        while True:
            yield Task(Public(id=f"{split}-{number}", prompt=f"say {seed + number}{config.ending}"), Secret())
            number += 1

    def verify(self, submission: Submission) -> bool:
        return False


def listed(folder: Path, ids: Iterable[str], seed: int = 3, ending: str = "") -> Path:
    """Write the list of tasks as they were under a seed."""
    rows = [
        {"id": each, "prompt": prompt_digest(Public(id=each, prompt=f"say {seed + int(each[5:])}{ending}"))}
        for each in ids
    ]
    (folder / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder / "env.toml"


def accepted(manifest: Path, **sections: AcceptedTasks) -> AnyEnvironment:
    return only_accepted(Words, sections or {"test": AcceptedTasks(file="test.jsonl", seed=3)}, manifest)


def read(environment: AnyEnvironment, seed: int = 0, **settings: Any) -> list[str]:
    """Ids, or what is wrong with a row."""
    rows = environment.tasks(environment.config_type(**settings), "test", seed)
    return [str(row.error) if isinstance(row, BadRow) else row.id for row in rows]


def test_only_the_listed_tasks_are_there_in_the_order_of_the_set_whatever_the_seed(tmp_path: Path) -> None:
    chosen = accepted(listed(tmp_path, ["test-5", "test-1"]))
    assert read(chosen) == ["test-1", "test-5"]
    assert read(chosen, seed=9) == ["test-1", "test-5"]
    assert [task.public.prompt for task in chosen.tasks(WordsConfig(), "test", 9) if isinstance(task, Task)] == [
        "say 4",
        "say 8",
    ]


async def test_a_host_finds_a_listed_task_and_no_other_split(tmp_path: Path) -> None:
    host = InProcessHost("words", accepted(listed(tmp_path, ["test-5"])))
    assert host.info.splits == ("test",)
    assert (await host.find_task("test", "test-5", 0)).public.prompt == "say 8"


def test_the_list_belongs_to_the_digest(tmp_path: Path) -> None:
    one = source_digest(accepted(listed(tmp_path, ["test-5"])))
    assert one == source_digest(accepted(tmp_path / "env.toml"))
    assert one != source_digest(accepted(listed(tmp_path, ["test-6"])))
    assert one != source_digest(Words)


def test_a_task_that_is_another_now_is_a_bad_row(tmp_path: Path) -> None:
    class Three(Words):
        @classmethod
        def tasks(cls, config: WordsConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
            return (Task(Public(id=f"test-{number}", prompt=f"say {seed + number}"), Secret()) for number in range(3))

    manifest = listed(tmp_path, ["test-0"])
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write('{"id": "test-1", "prompt": "sha256:0"}\n{"id": "test-9", "prompt": "sha256:0"}\n')
    found = read(only_accepted(Three, {"test": AcceptedTasks(file="test.jsonl", seed=3)}, manifest))
    assert found[0] == "test-0"
    assert [("'test-1' is not there as it was accepted" in line) for line in found[1:]] == [True, False]
    assert "'test-9'" in found[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("", "lists no task"),
        ("{", "test.jsonl:1: write an object"),
        ('["a"]', "test.jsonl:1: write an object"),
        ('{"id": 3, "prompt": "x"}', "test.jsonl:1: write an object"),
        ("[" * 100_000, "test.jsonl:1: write an object"),
    ],
)
def test_a_list_that_does_not_hold_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "test.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=words):
        accepted(tmp_path / "env.toml")


def test_a_list_of_a_split_that_is_not_there_is_refused(tmp_path: Path) -> None:
    chosen = accepted(listed(tmp_path, ["test-1"]), tset=AcceptedTasks(file="test.jsonl"))
    with pytest.raises(ConfigError, match=r"accepted\.tset: its splits are train, test"):
        InProcessHost("words", chosen)


def test_a_manifests_settings_are_defaults_and_may_name_its_folder(tmp_path: Path) -> None:
    (tmp_path / "env.toml").write_text(
        'name = "me/sums"\n[python]\nentry = "rollouthub_servers.math:MathProblems"\ndistribution = "rollouthub"\n'
        '[settings]\ndata = "{folder}/rows.jsonl"\nresponse_tokens = 7\n'
    )
    found = find_environment(str(tmp_path))
    assert found.defaults == {"data": f"{tmp_path}/rows.jsonl", "response_tokens": 7}
