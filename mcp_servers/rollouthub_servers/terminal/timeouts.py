"""Deadlines of tasks: the tasks' own timeouts, plus overhead."""

from collections.abc import Iterable

from rollouthub import Deadlines
from rollouthub_servers.terminal.harbor import HarborTask, Step

MOST_RUNS = 3
"""Most runs of a step's tests: on the image's system, on the agent's, and on the untouched image."""
AROUND_TESTS = 240.0
"""Seconds for a snapshot, fresh containers and reading the reward."""
AROUND_IMAGE = 120.0
"""Seconds for the containers of the untouched image."""
SETUP_SECONDS = 600.0
"""Most seconds of a step's `setup.sh`."""
AROUND_AGENT = 120.0
AROUND_CALL = 15.0
AROUND_EPISODE = 600.0


def own_seconds(task: HarborTask, step: Step) -> float | None:
    """Seconds that a task gives its agent for a step; None if it does not say."""
    return step.section.agent.timeout_sec or task.settings.agent.timeout_sec


def grading_seconds(step: Step) -> float:
    """Seconds for grading an agent's work, until it is known whether all its files can be graded in time."""
    return MOST_RUNS * step.section.verifier.timeout_sec + AROUND_TESTS


def setup_seconds(step: Step) -> float:
    """Most seconds until a step has begun."""
    check = step.section.healthcheck
    healthy = 0.0
    if check is not None:
        pause = check.timeout_sec + max(check.interval_sec, check.start_interval_sec)
        healthy = check.start_period_sec + (check.retries + 1) * pause
    return healthy + (SETUP_SECONDS if (step.folder / "workdir" / "setup.sh").is_file() else 0.0)


def acting_seconds(task: HarborTask, step: Step) -> float:
    """Seconds that a step's agent has, by default the hub's usual deadline."""
    return own_seconds(task, step) or Deadlines().agent


def deadlines_of(tasks: Iterable[HarborTask], command_seconds: float = 0.0) -> Deadlines:
    """Deadlines that suffice for the slowest of the tasks; never shorter than the hub's own.

    Where an agent's files cannot be graded in time, the tests are run on the untouched image afterwards.

    A step is graded and the next one begun within the call that ends it, so tool calls also get the time of a step's
    tests and set-up. A set-up that fails is tried on the untouched image, after those of the steps before, and once
    more after the reference solutions of these. A reference solution is one call, which may take the agent's whole
    time.
    """
    usual = Deadlines()
    verify, call, agent = usual.verify, max(usual.tool_call, command_seconds + AROUND_CALL), usual.agent
    for task in tasks:
        tests = [grading_seconds(step) + step.section.verifier.timeout_sec + AROUND_IMAGE for step in task.steps]
        setups = sum(setup_seconds(step) for step in task.steps)
        acting = [own_seconds(task, step) or 0.0 for step in task.steps]
        verify = max(verify, *tests)
        call = max(call, *(acting_seconds(task, step) + AROUND_CALL for step in task.steps))
        if task.is_multi_step:
            begun = 3 * setups + sum(acting_seconds(task, step) for step in task.steps) if setups else 0.0
            call = max(call, max(tests) + begun)
        agent = max(agent, sum(acting) + (sum(tests) + setups if task.is_multi_step else 0.0) + AROUND_AGENT)
    episode = max(usual.episode, agent + verify + AROUND_EPISODE)
    return Deadlines(tool_call=call, agent=agent, verify=verify, episode=episode)
