"""The critic's view of an episode of several agents: what every seat heard, said and did, in order.

It is for training with a centralised critic (CTDE), which sees more than any agent that acts. No agent is shown it.
"""

from typing import Any

from rollouthub.export.conversation import chat_message
from rollouthub.rollout import Rollout


def critic_view(rollout: Rollout) -> list[dict[str, Any]]:
    """One entry for each turn of all seats, opponents and private messages included, in the order in which the turns
    ended.

    `turn` and `seat` say whose it is; `heard` are the messages that the seat received before it, private ones among
    them; `said` is the response, and `results` what its tool calls gave. A critic that values turn `t` is given the
    entries before it, and the `heard` of its own.
    """
    return [
        {
            "turn": turn.index,
            "seat": turn.agent,
            "heard": [chat_message(message) for message in turn.messages],
            "said": chat_message(turn.response),
            "results": [
                "\n".join(getattr(block, "text", f"[{block.type}]") for block in call.result.content)
                for call in turn.tool_calls
            ],
        }
        for turn in rollout.turns
    ]


def has_several_seats(rollout: Rollout) -> bool:
    """Whether more than one seat has spoken, so that the critic's view has more than an agent's."""
    return len({turn.agent for turn in rollout.turns}) > 1
