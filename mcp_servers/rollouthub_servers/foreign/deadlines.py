"""Deadlines around those of foreign code: longer, so that what hangs at an agent's words is seen to be the agent's."""

import anyio

from rollouthub.limits import Deadlines

CALL_SHARE, VERDICT_SHARE = 0.9, 0.5
"""What of the time that is left a call or a verdict may take; in the rest is found out whose failure it was."""
_AROUND_SECONDS = 30.0


def deadlines_around(*, begin: float, call: float, verify: float) -> Deadlines:
    """The hub's deadlines for code that may take so many seconds to begin, for a call, and for a verdict."""
    usual, begun = Deadlines(), begin + _AROUND_SECONDS
    return Deadlines(
        setup=max(usual.setup, begun),
        tool_call=max(usual.tool_call, call + begun),
        verify=max(usual.verify, 2 * verify + begun),
    )


def seconds_left(share: float) -> float:
    """A share of the seconds until the deadline that is in force."""
    return share * max(0.0, anyio.current_effective_deadline() - anyio.current_time())
