"""The content of a rollout's page: its conversation, from the prompt to the verdict."""

from collections.abc import Callable, Sequence

from mcp_types import Tool

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import number, turn_number
from rollouthub.views.markup import Markup, join, tag

STYLE = ""
"""The style sheet of the content, for the page's own style sheet: no style attributes, no script."""


def rollout_content(
    rollout: Rollout, *, tools: Sequence[Tool], media_url: Callable[[str], str], turn_link: Callable[[int], str]
) -> Markup:
    """The conversation of a rollout as one element, with an anchor for each turn: `#turn-3` is the third.

    `tools` are those that the environment showed; `media_url` gives the address of a picture or file by its digest,
    and `turn_link` the address of a turn by its index, counted from 0.
    """
    parts: list[Markup] = []
    for turn in rollout.turns:
        head = tag("h3", tag("a", turn_number(turn.index), href=turn_link(turn.index)))
        said = [tag("pre", message.text) for message in (*turn.messages, turn.response)]
        parts.append(tag("section", head, said, id=f"turn-{turn.index + 1}", class_="turn"))
    reward = "no reward" if rollout.reward is None else f"reward {number(rollout.reward)}"
    feedback = None if rollout.score is None or not rollout.score.feedback else tag("pre", rollout.score.feedback)
    return tag("div", parts, tag("section", tag("h3", join(reward)), feedback, id="verdict"), class_="conversation")
