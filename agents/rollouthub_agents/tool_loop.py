"""`tool_loop`: an agent that makes the model's tool calls concurrently, until the model answers in text."""

from collections.abc import Sequence

from pydantic import JsonValue

from rollouthub import Message, Seat, Stop


class ToolLoop:
    """Generates, makes the requested calls, and repeats. Text without a call goes to the environment's user, if any."""

    name = "tool_loop"
    version = "1"
    needs_model = True
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Act until the model stops calling tools, submits, or a limit is reached."""
        conversation = list(seat.messages)
        while True:
            response = await seat.generate(conversation)
            conversation.append(response)
            if response.tool_requests:
                conversation += await seat.call_tools(response.tool_requests)
            elif (more := await said(seat, response)) is None:
                return Stop.FINISHED
            else:
                conversation += more


async def said(seat: Seat, response: Message) -> Sequence[Message] | None:
    """The user's reply to a response without a tool call; None if the conversation is over."""
    return None if seat.is_sealed else await seat.reply((response,))
