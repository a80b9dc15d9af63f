"""The tool loop: native tool calls, run concurrently, until the model answers in words."""

from collections.abc import Sequence

from pydantic import JsonValue

from rollouthub import Message, Seat, Stop


class ToolLoop:
    """Generate; run the calls asked for; repeat. Words without a call go to the environment's user, if it has one."""

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
    """What the environment's user answers to words; None when the conversation is over."""
    return None if seat.is_sealed else await seat.reply((response,))
