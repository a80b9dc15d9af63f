"""An environment is one class: its configuration type is found, its defaults are sensible."""

from typing import Any

import pytest
from pydantic import ValidationError

from rollouthub import Environment, EnvironmentConfig, Public, Secret, Submission, Task
from rollouthub.environment import ConfigT
from rollouthub.errors import NotOffered
from rollouthub.messages import Message, assistant, system, user


class Config(EnvironmentConfig):
    """One knob."""

    size: int = 3
    """How big."""


class Direct(Environment[Config]):
    """Names its configuration."""


class Child(Direct):
    """Inherits it."""


class Generic(Environment[ConfigT]):
    """Leaves it open."""


class Plain(Environment[EnvironmentConfig]):
    """Needs none."""


def made(public: Public, secret: Secret | None = None) -> Plain:
    return Plain(Task(public, secret or Secret()), EnvironmentConfig(), seed=0)


def test_the_configuration_type_is_the_one_named_in_the_brackets() -> None:
    class Closed(Generic[Config]):
        """Fills it in."""

    assert [kind.config_type for kind in (Direct, Child, Closed)] == [Config] * 3
    assert Plain.config_type is Generic.config_type is EnvironmentConfig


def test_a_configuration_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Config.model_validate({"sise": 4})


def test_a_conversation_starts_with_the_system_message_and_the_prompt() -> None:
    assert made(Public(id="1", prompt="Q", system="S")).messages("agent") == [system("S"), user("Q")]


def test_a_ready_conversation_is_taken_as_it_is() -> None:
    ready = (user("Q"), assistant("A"), user("why?"))
    assert made(Public(id="1", prompt=ready)).messages("agent") == list(ready)


def test_the_reference_is_the_tasks_own() -> None:
    solution: tuple[Message, ...] = (assistant("42"),)
    assert made(Public(id="1", prompt="Q"), Secret(reference=solution)).reference() == solution


async def test_by_default_there_is_no_user_no_snapshot_and_no_verifier() -> None:
    world: Environment[Any] = made(Public(id="1", prompt="Q"))
    assert await world.reply("agent", [assistant("hello")]) is None
    with pytest.raises(NotOffered):
        world.snapshot()
    with pytest.raises(NotOffered):
        await world.restore({})
    with pytest.raises(NotImplementedError):
        world.verify(Submission())
