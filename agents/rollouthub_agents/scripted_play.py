"""Plays given assistant messages with real tool calls, for the oracle and the replay."""

from collections.abc import Sequence

from rollouthub import Message, Seat, Stop


async def play_script(seat: Seat, script: Sequence[Message]) -> Stop:
    """Play each message as if a model had generated it: its tool calls are made, and its text goes to the user."""
    conversation = list(seat.messages)
    for response in script:
        seat.say(conversation, response)
        conversation.append(response)
        if response.tool_requests:
            conversation += await seat.call_tools(response.tool_requests)
        elif not seat.is_sealed and (more := await seat.reply((response,))) is not None:
            conversation += more
    return Stop.FINISHED
