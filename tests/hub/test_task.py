"""The secret half of a task leaves by no route but the privileged one."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.pretty import Pretty

from rollouthub import Public, Secret, Task
from rollouthub.messages import assistant
from rollouthub.task import PRIVILEGED

CANARY = "the answer is seventeen"


class Hidden(Secret):
    """A secret with a field of its own."""

    rubric: str


class Exposed(Public):
    """A public half whose author put a secret in it by mistake."""

    solution: Secret


class Envelope(BaseModel):
    """A model that carries whatever it is given."""

    content: object
    typed: Secret


def secret() -> Hidden:
    return Hidden(answer=CANARY, rubric=CANARY, reference=(assistant(CANARY),))


def task() -> Task[Public, Hidden]:
    return Task(Public(id="t/1", prompt="What is it?"), secret())


ROUTES: dict[str, Callable[[], object]] = {
    "model_dump": lambda: secret().model_dump(),
    "model_dump to JSON values": lambda: secret().model_dump(mode="json"),
    "model_dump_json": lambda: secret().model_dump_json(),
    "a chosen field": lambda: secret().model_dump(include={"answer"}),
    "a context of another kind": lambda: secret().model_dump(context={"privileged": "yes"}),
    "TypeAdapter of the secret": lambda: TypeAdapter(Secret).dump_json(secret()),
    "TypeAdapter of the subclass": lambda: TypeAdapter(Hidden).dump_python(secret()),
    "TypeAdapter of the task": lambda: TypeAdapter(Task[Public, Hidden]).dump_json(task()),
    "TypeAdapter of a list": lambda: TypeAdapter(list[object]).dump_json([secret()]),
    "to_json": lambda: to_json({"task": task()}),
    "to_jsonable_python": lambda: to_jsonable_python([task()]),
    "a container": lambda: Envelope(content=None, typed=secret()).model_dump_json(),
    "a container of anything": lambda: Envelope(content=[task()], typed=Secret()).model_dump_json(),
    "a public half that holds it": lambda: Exposed(id="1", prompt="", solution=secret()).model_dump(),
    "pickle of the secret": lambda: pickle.dumps(secret()),
    "pickle of the task": lambda: pickle.dumps(task()),
    "pickle of a container": lambda: pickle.dumps({"tasks": [task()]}),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_secret_is_not_serialised(route: str) -> None:
    with pytest.raises(Exception, match=r"secret half of a task|holds its secret half") as refusal:
        ROUTES[route]()
    assert CANARY not in str(refusal.value)


def shown(value: object) -> str:
    """What rich prints of a value, in a traceback's locals for one."""
    console = Console(file=io.StringIO(), width=200)
    console.print(Pretty(value))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    "show", [repr, str, "{}".format, "%s".__mod__, shown], ids=["repr", "str", "format", "percent", "rich"]
)
def test_a_secret_is_not_shown(show: Callable[[object], str]) -> None:
    for value in (secret(), task(), [task()], Envelope(content=None, typed=secret())):
        assert CANARY not in show((value,))


def test_the_privileged_context_serialises_a_secret() -> None:
    text = secret().model_dump_json(context=PRIVILEGED)
    assert Hidden.model_validate_json(text) == secret()


def test_the_public_half_is_serialised_without_the_secret() -> None:
    assert CANARY not in task().public.model_dump_json()


def test_a_task_is_known_by_its_public_id() -> None:
    assert task().id == "t/1"


def test_a_changed_answer_is_a_changed_task() -> None:
    changed = Task(task().public, secret().model_copy(update={"answer": "eighteen"}))
    assert task().digest == task().digest
    assert changed.digest != task().digest


def test_a_changed_prompt_is_a_changed_task() -> None:
    changed = Task(task().public.model_copy(update={"prompt": "What else?"}), secret())
    assert changed.digest != task().digest


def test_a_secret_can_be_copied_within_its_process() -> None:
    assert copy.copy(secret()) == copy.deepcopy(secret()) == secret()
