"""Tasks of every kind, by name; for tests."""

# pyright: basic

import os
import signal
import socket
import time
from typing import Any
from urllib.error import URLError

from garbling import garble
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ChatMessageUser, ContentImage, get_model
from inspect_ai.scorer import Score, includes
from inspect_ai.tool import ToolInfo, ToolParams

CANARY = "canary-41fd"
SEEN: "list[str]" = []
"""State of the module's own, which tasks often have."""


def samples() -> "list[Any]":
    """Sums, with their targets and more that is secret."""
    return [Sample(input=f"What is {n} + {n}?", target=str(2 * n), metadata={"secret": CANARY}) for n in range(1, 4)]


async def talk(state: Any, model: Any) -> Any:
    """Ask until an answer holds a digit, or misbehave as told."""
    while True:
        state.say((await model.generate(state.messages)).message)
        said = state.output.text
        SEEN.append(said)
        if said == "garble":
            garble()
        if said == "hang":
            time.sleep(600)  # noqa: ASYNC251  # as a loop without end does
        if said == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if said == "kill":  # the driver itself, as whoever has no more memory does
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)  # noqa: ASYNC251
        if said == "fail":
            raise KeyError("something")
        if said == "elsewhere":
            await get_model().generate([ChatMessageUser(content=f"Is it {CANARY}?")])
        if said.startswith("echo "):
            state.messages.append(ChatMessageUser(content=said))
            continue
        if said.startswith("show "):
            state.messages.append(ChatMessageUser(content=[ContentImage(image=said.removeprefix("show "))]))
            continue
        if any(letter.isdigit() for letter in said):
            return state
        state.messages.append(ChatMessageUser(content=f"You said {len(SEEN)} things. Which number?"))


async def calling(state: Any, model: Any) -> Any:
    """Answer calls until there is none."""
    tools = [ToolInfo(name="note"), ToolInfo(name="score")]
    while True:
        state.say((await model.generate(state.messages, tools)).message)
        if not state.output.tool_calls:
            return state
        for call in state.output.tool_calls:
            SEEN.append(call.function)
            state.messages.append(ChatMessageTool(content=f"noted {len(SEEN)}", tool_call_id=call.id))


async def submitting(state: Any, model: Any) -> Any:
    """Ask until something is submitted."""
    tools = [ToolInfo(name="submit", parameters=ToolParams(properties={"answer": {"type": "string"}}))]
    while True:
        state.say((await model.generate(state.messages, tools)).message)
        for call in state.output.tool_calls or ():
            state.output = ChatMessageUser(content=str(call.arguments.get("answer")))
            return state
        state.messages.append(ChatMessageUser(content="Please submit."))


async def fails(state: Any, model: Any) -> Any:
    """Fail at whatever is said."""
    await model.generate(state.messages)
    raise OSError("always")


async def length(state: Any, target: str) -> Score:
    """How many messages there are."""
    return Score(len(state.messages))


async def picky(state: Any, target: str) -> Score:
    """Fail at one word, give what is no number at another, or never come back."""
    said = state.output.text
    if said == "break 1":
        raise KeyError("said")
    if said == "late 1":
        raise TimeoutError("of its own")
    if said == "pipe 1":
        raise BrokenPipeError("a program of its own has ended")
    if said == "unreached 1":
        raise URLError("no such host") from socket.gaierror("no such host")
    if said == "hang 1":
        time.sleep(600)  # noqa: ASYNC251
    return Score({"right": target in said, "short": "odd" if said == "odd 1" else len(said) < 9})


async def never(state: Any, target: str) -> Score:
    """Fail at whatever was said."""
    raise OSError("always")


async def last_word(state: Any, target: str) -> Score:
    """Fail where there is no word."""
    return Score("C" if state.output.text.split()[-1] == target else "I")


async def stubborn(state: Any, model: Any) -> Any:
    """Ask again, whatever comes of it."""
    state.say((await model.generate(state.messages)).message)
    for _ in range(2):
        try:
            state.say((await model.generate(state.messages)).message)
        except Exception:  # as a careless solver does
            continue
    return state


async def judged(state: Any, target: str) -> Score:
    """Ask a model, and hide that it was not there."""
    try:
        await get_model().generate([ChatMessageUser(content=f"Is it {target}?")])
    except Exception:
        return Score("C")
    return Score("C")


KINDS: "dict[str, Any]" = {
    "talk": {"solver": talk, "scorer": [includes(), length]},
    "tools": {"solver": calling, "scorer": [includes(), length]},
    "submit": {"solver": submitting, "scorer": includes()},
    "fails": {"solver": fails, "scorer": includes()},
    "picky": {"solver": talk, "scorer": picky},
    "never": {"solver": talk, "scorer": never},
    "judged": {"scorer": judged},
    "last_word": {"scorer": last_word},
    "stubborn": {"solver": stubborn, "scorer": includes()},
    "boxed": {"scorer": includes(), "sandbox": "docker"},
    "unscored": {},
}


@task
def shaped(kind: str) -> Task:
    """A task of a kind."""
    if kind == "crash":
        raise OSError("no such thing")
    return Task(dataset=samples(), **KINDS[kind])
