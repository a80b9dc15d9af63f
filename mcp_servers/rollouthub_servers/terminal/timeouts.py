"""Deadlines of tasks: the tasks' own timeouts, plus overhead."""

from collections.abc import Iterable

from rollouthub import Deadlines
from rollouthub_servers.terminal.harbor import HarborTask, Step

MOST_RUNS = 3
"""Most runs of a step's tests: on the image's system, on the agent's, and on the untouched image."""
AROUND_TESTS = 240.0
"""Seconds for a snapshot, fresh containers and reading the reward."""
AROUND_AGENT = 120.0
AROUND_CALL = 15.0
AROUND_EPISODE = 600.0


def own_seconds(task: HarborTask, step: Step) -> float | None:
    """Seconds that a task gives its agent for a step; None if it does not say."""
    return step.section.agent.timeout_sec or task.settings.agent.timeout_sec


def acting_seconds(task: HarborTask, step: Step) -> float:
    """Seconds that a step's agent has, by default the hub's usual deadline."""
    return own_seconds(task, step) or Deadlines().agent


def deadlines_of(tasks: Iterable[HarborTask], command_seconds: float = 0.0) -> Deadlines:
    """Deadlines that suffice for the slowest of the tasks; never shorter than the hub's own.

    A step is graded within the call that ends it, so tool calls also get the time of a step's tests. A reference
    solution is one call, which may take the agent's whole time.
    """
    usual = Deadlines()
    verify, call, agent = usual.verify, max(usual.tool_call, command_seconds + AROUND_CALL), usual.agent
    for task in tasks:
        tests = [MOST_RUNS * step.section.verifier.timeout_sec for step in task.steps]
        acting = [own_seconds(task, step) or 0.0 for step in task.steps]
        verify = max(verify, max(tests) + AROUND_TESTS)
        call = max(call, *(acting_seconds(task, step) + AROUND_CALL for step in task.steps))
        if task.is_multi_step:
            call = max(call, max(tests) + AROUND_TESTS)
        agent = max(agent, sum(acting) + (sum(tests) if task.is_multi_step else 0.0) + AROUND_AGENT)
    episode = max(usual.episode, agent + verify + AROUND_EPISODE)
    return Deadlines(tool_call=call, agent=agent, verify=verify, episode=episode)
