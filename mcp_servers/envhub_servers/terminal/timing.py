"""How long tasks may take: their own timeouts, and what comes on top of them."""

from collections.abc import Iterable

from envhub import Deadlines
from envhub_servers.terminal.harbor import HarborTask

AROUND_TESTS = 120.0
"""Seconds for a snapshot, a fresh container and the way back of the reward."""
AROUND_AGENT = 120.0
AROUND_EPISODE = 600.0


def deadlines_of(tasks: Iterable[HarborTask]) -> Deadlines:
    """Deadlines that the slowest of the tasks keeps; never shorter than the hub's own.

    A step is graded within the call that ends it, so calls get the time of a step's tests, too.
    """
    usual = Deadlines()
    verify, call, agent = usual.verify, usual.tool_call, usual.agent
    for task in tasks:
        tests = [step.section.verifier.timeout_sec for step in task.steps]
        acting = [step.section.agent.timeout_sec or task.settings.agent.timeout_sec or 0.0 for step in task.steps]
        verify = max(verify, max(tests) + AROUND_TESTS)
        if task.is_multi_step:
            call = max(call, max(tests) + AROUND_TESTS)
        agent = max(agent, sum(acting) + (sum(tests) if task.is_multi_step else 0.0) + AROUND_AGENT)
    episode = max(usual.episode, agent + verify + AROUND_EPISODE)
    return Deadlines(tool_call=call, agent=agent, verify=verify, episode=episode)
