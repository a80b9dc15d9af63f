"""The control plane in process: what it says of its environment, and the tasks it hands out."""

import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from rollouthub import BadRow, EnvironmentConfig, Limits, Public, Secret, Task
from rollouthub.errors import ConfigError, DataError, UnknownNameError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.host import source_digest
from tests.hosting.local.postponed import Postponed
from tests.hosting.local.worlds import CANARY, Market, Workshop, World, host_of


class Rows(World):
    """Tasks as a careless data set has them."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        return ("train", "test")

    @classmethod
    def limits(cls, config: Any) -> Limits:
        return Limits(max_turns=7)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret] | BadRow]:
        yield Task(Public(id=f"{split}/{seed}", prompt="Q"), Secret(answer=CANARY))
        yield BadRow(DataError("no answer", "rows.jsonl", 2))
        if split == "train":
            raise KeyError("question")


def test_a_host_says_what_its_environment_is() -> None:
    info = host_of(Rows).info
    assert (info.name, info.version, info.contract) == ("world", "0.1.0", 1)
    assert (info.splits, info.seats, info.limits.max_turns) == (("train", "test"), ("agent",), 7)
    assert info.isolation == "in_process"


def test_what_a_host_says_can_be_sent() -> None:
    info = host_of(Market).info
    assert type(info).model_validate_json(info.model_dump_json()) == info


def test_tasks_are_public_cards_and_bad_rows() -> None:
    card, bad = host_of(Rows).cards("test", 5)
    assert not isinstance(card, BadRow)
    assert (card.public.id, card.split) == ("test/5", "test")
    assert isinstance(bad, BadRow)


def test_a_card_keeps_its_secret() -> None:
    card = next(host_of(Rows).cards("test", 0))
    assert CANARY not in repr(card)
    with pytest.raises(PermissionError):
        pickle.dumps(card)


def test_an_unknown_split_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="no split of world is named 'tset'; did you mean 'test'"):
        next(host_of(Rows).cards("tset", 0))


def test_tasks_that_cannot_be_made_are_a_clear_error() -> None:
    tasks = host_of(Rows).cards("train", 0)
    assert [type(next(tasks)).__name__ for _ in range(2)] == ["_HostedTask", "BadRow"]
    with pytest.raises(ConfigError, match="the tasks of world could not be made: KeyError: 'question'"):
        next(tasks)


def test_the_digest_follows_the_code_and_the_version() -> None:
    class Newer(Workshop):
        version = "0.2.0"

    assert source_digest(Workshop) == source_digest(Workshop)
    assert len({source_digest(Workshop), source_digest(Newer), source_digest(Postponed)}) == 3


def test_without_a_configuration_the_defaults_hold() -> None:
    assert InProcessHost("world", Rows).info == host_of(Rows).info
