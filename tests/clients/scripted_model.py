"""A model that plays a script with the tools it is shown, under whatever names a client shows them.

What it says follows from the conversation alone: how many of the environment's tools have answered so far, and what.
"""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from mcp_types import Tool

from rollouthub import Message, ModelReply, ModelRequest, ToolRequest
from rollouthub.messages import assistant
from rollouthub.models.mock.behaviours import expression
from rollouthub.models.mock.byte_tokens import output_ids, packed, prompt_ids, spoken
from rollouthub.rollout import Usage
from rollouthub.values import Int32s

Step = tuple[str, dict[str, object]] | str
"""A tool to call, or the last words."""
Script = Callable[[str, Sequence[str]], Step]
"""From what the user said and the tools' answers so far to what comes next."""
_SEPARATORS = "_.-/:"
_SHELLS = ("bash",)
_TOLD = ("Observation:", "Error:")


class ScriptedModel:
    """Plays a script; gives the ids of every token it reads and says, as a mock does."""

    name = "test/scripted"

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """What comes next in the script."""
        self.requests.append(request)
        message = self._next(request)
        prompt, (output, logprobs) = prompt_ids(request.messages, request.tools), packed(output_ids(spoken(message)))
        return ModelReply(
            message=message,
            finish_reason="tool_calls" if message.tool_requests else "stop",
            usage=Usage(prompt_tokens=len(prompt), output_tokens=len(output)),
            prompt_token_ids=Int32s(prompt),
            output_token_ids=output,
            output_logprobs=logprobs,
        )

    def _next(self, request: ModelRequest) -> Message:
        if not request.tools:
            return assistant("A title")  # what some clients ask on the side
        asked = {call.id for message in request.messages for call in message.tool_requests}
        answers = [answer_in(message.text) for message in request.messages if _is_answer(message, asked)]
        said = "\n".join(message.text for message in request.messages if message.role == "user")
        step = self._script(said, answers)
        if isinstance(step, str):
            return self._say(step, request)
        call = presented(step, request.tools)
        arguments = json.dumps(call.arguments)
        return assistant("", ToolRequest(id=f"call-{len(request.messages)}", name=call.name, arguments=arguments))

    @staticmethod
    def _say(words: str, request: ModelRequest) -> Message:
        """The last words. A client that knows nothing but tools is told by one of them that this is the end."""
        names = [tool.name for tool in request.tools]
        if "final_answer" in names:
            name, arguments = "final_answer", {"answer": words}
        elif names == list(_SHELLS):
            name, arguments = names[0], {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
        else:
            return assistant(words)
        request_id = f"call-{len(request.messages)}"
        return assistant(words, ToolRequest(id=request_id, name=name, arguments=json.dumps(arguments)))


@dataclass(frozen=True)
class Call:
    """A tool as a client shows it."""

    name: str
    arguments: dict[str, object]


def presented(step: tuple[str, dict[str, object]], tools: Sequence[Tool]) -> Call:
    """The tool that a client shows under this name, or one that begins with its server's; else its shell."""
    name, arguments = step
    for tool in tools:
        if tool.name == name or (tool.name.endswith(name) and tool.name[-len(name) - 1] in _SEPARATORS):
            return Call(tool.name, arguments)
    for tool in tools:
        if tool.name in _SHELLS:
            line = f"python3 $HOME/tool.py {name} {shlex.quote(json.dumps(arguments))}"
            return Call(tool.name, {"command": line})
    raise AssertionError(f"no tool like {name!r} is shown; there are {[tool.name for tool in tools]}")


def _is_answer(message: Message, asked: set[str]) -> bool:
    """Whether a message is a tool's; some clients tell their model in a user's place."""
    if message.role == "tool":
        return message.tool_call_id in asked
    return message.role == "user" and message.text.startswith(_TOLD)


def answer_in(text: str) -> str:
    """A tool's own words, in what a client makes of them: how long it took, or a shell's exit status."""
    text = text.rpartition("\nOutput:")[2].strip()
    try:
        told: dict[str, object] | object = json.loads(text)
    except ValueError:
        return text
    return str(cast(dict[str, object], told)["output"]) if isinstance(told, dict) and "output" in told else text


def sums(prompt: str, answers: Sequence[str]) -> Step:
    """Ask the calculator, then say what it said."""
    if not answers:
        return "calculate", {"expression": expression(prompt)}
    return f"The answer is {_found(r'-?[0-9]+', answers[0])}"


def banking(prompt: str, answers: Sequence[str]) -> Step:
    """Every step with what the ones before gave."""
    found = [_found(r"(?:acc|receipt)-[0-9]+|(?<=send is )[0-9]+|[0-9]+", answer) for answer in answers]
    match len(found):
        case 0:
            return "open_account", {"owner": "Ada"}
        case 1:
            return "open_account", {"owner": "Bob"}
        case 2:
            return "deposit", {"account": found[0], "amount": 300}
        case 3:
            return "transfer", {"source": found[0], "target": found[1], "amount": 500}
        case 4:
            return "transfer", {"source": found[0], "target": found[1], "amount": int(found[3])}
        case 5:
            return "balance", {"account": found[1]}
        case 6:
            return "submit", {"answer": f"{found[4]}:{found[5]}"}
        case _:
            return "Done."


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, f"no {pattern} in {text!r}"
    return found[0]
