"""Playing ready-made assistant messages through real tools: what the oracle and the replay share."""

from collections.abc import Sequence

from rollouthub import Message, Seat, Stop


async def play_script(seat: Seat, script: Sequence[Message]) -> Stop:
    """Say each message as if a model had; its tool requests really run, its words really reach the user."""
    conversation = list(seat.messages)
    for response in script:
        seat.say(conversation, response)
        conversation.append(response)
        if response.tool_requests:
            conversation += await seat.call_tools(response.tool_requests)
        elif not seat.is_sealed and (more := await seat.reply((response,))) is not None:
            conversation += more
    return Stop.FINISHED
