"""`react`: ReAct in plain text, for models without tool calls: Thought, Action, Observation (arXiv:2210.03629)."""

import json
import re
from collections.abc import Sequence

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rollouthub import Message, Seat, Stop, ToolRequest

# What stands before a mark is looked for on its own line alone: from every empty line on, it would be quadratic.
_ACTION = re.compile(r"^[ \t]*+Action:\s*+([A-Za-z0-9_.-]++)\s*$", re.MULTILINE)
_INPUT = re.compile(r"^[ \t]*+Action Input:\s*+", re.MULTILINE)
_ANSWER = re.compile(r"^[ \t]*+Final Answer:\s*+", re.MULTILINE)
_READ = 400_000
"""Most characters of a response, from its beginning, that are searched for actions and answers."""

_RULES = """\
Solve the task step by step. To use a tool, write exactly:

Thought: why you need it
Action: the tool's name
Action Input: its arguments as one JSON object

then stop; the result comes back as an Observation. When you know the answer, write:

Final Answer: the answer

Tools:
{tools}"""


class ReActConfig(BaseModel):
    """The settings of the `react` agent."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_malformed: int = Field(default=3, ge=0)
    """Responses in a row without action or final answer that get a hint; the next one counts as the final answer."""


class ReAct:
    """Parses actions from the model's text, and returns tool results to it as observations."""

    name = "react"
    version = "1"
    needs_model = True
    config_type = ReActConfig

    def __init__(self, config: ReActConfig | None = None) -> None:
        self._config = config or ReActConfig()
        self.config: dict[str, JsonValue] = self._config.model_dump(mode="json")

    async def play(self, seat: Seat) -> Stop:
        """Play until a final answer, a submission, or a limit."""
        conversation = _opening(seat)
        malformed = 0
        while True:
            response = await seat.generate(conversation, tools=())
            conversation.append(response)
            request = parse_action(response.text, len(conversation))
            if request is not None:
                malformed = 0
                (result,) = await seat.call_tools([request])
                conversation.append(Message(role="user", content=f"Observation: {result.text}"))
            elif _ANSWER.search(response.text, 0, _READ) or malformed >= self._config.max_malformed:
                return await _finish(seat, response)
            else:
                malformed += 1
                hint = "Observation: write an Action with its Action Input, or a Final Answer."
                conversation.append(Message(role="user", content=hint))


def parse_action(text: str, place: int) -> ToolRequest | None:
    """The first action in a response; None if there is none, or if a final answer comes before it."""
    text = text[:_READ]
    action = _ACTION.search(text)
    if action is None:
        return None
    answer = _ANSWER.search(text)
    if answer is not None and answer.start() < action.start():
        return None
    given = _INPUT.search(text, action.end())
    return ToolRequest(
        id=f"react-{place}", name=action[1], arguments=_first_object(text[given.end() :]) if given else "{}"
    )


def _first_object(text: str) -> str:
    """The JSON object at the beginning of a text; if there is none, the text's first line."""
    text = text.lstrip().removeprefix("```json").removeprefix("```").lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return text.partition("\n")[0].strip()
    return text[:end]


async def _finish(seat: Seat, response: Message) -> Stop:
    """Submit the final answer if the environment has a `submit` tool."""
    answer = _ANSWER.search(response.text, 0, _READ)
    words = response.text[answer.end() :].strip() if answer else response.text
    if any(tool.name == "submit" for tool in seat.tools):
        await seat.call_tools([ToolRequest(id="react-answer", name="submit", arguments=json.dumps({"answer": words}))])
        return Stop.SUBMITTED
    return Stop.FINISHED


def _opening(seat: Seat) -> list[Message]:
    rules = _RULES.format(tools=_listing(seat.tools))
    first, *rest = seat.messages
    if first.role == "system":
        return [first.model_copy(update={"content": f"{first.text}\n\n{rules}"}), *rest]
    return [Message(role="system", content=rules), first, *rest]


def _listing(tools: Sequence[Tool]) -> str:
    lines = [
        f"- {tool.name}: {tool.description} Arguments: {json.dumps(tool.input_schema.get('properties', {}))}"
        for tool in tools
        if tool.name != "submit"
    ]
    return "\n".join(lines) or "- none"
