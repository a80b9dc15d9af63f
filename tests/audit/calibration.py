"""The calibration set: seeded defects by class, and tasks without a defect."""

from collections.abc import Callable, Mapping, Sequence

from tests.audit.hardened import in_machines, in_memory
from tests.audit.machines import MachineTask
from tests.audit.made_tasks import MadeTask
from tests.audit.seeded import (
    bleeding,
    evaluated,
    flaky,
    floor,
    forged_programs,
    forged_rewards,
    leaks_in_listings,
    leaks_in_lists,
    leaks_in_results,
    leaks_on_disk,
    missing_files,
    network,
    oracle,
    prompt,
    right_refused,
    verifier,
    verifiers_words,
    worthless_work,
    wrong_accepted,
)

MADE: Mapping[str, Callable[[], Sequence[MadeTask]]] = {
    "oracle": oracle.tasks,
    "floor": floor.tasks,
    "wrong_accepted": wrong_accepted.tasks,
    "right_refused": right_refused.tasks,
    "flaky": flaky.tasks,
    "verifier": verifier.tasks,
    "network": network.tasks,
    "prompt": prompt.tasks,
    "leaks_in_lists": leaks_in_lists.tasks,
    "leaks_in_results": leaks_in_results.tasks,
    "leaks_in_listings": leaks_in_listings.tasks,
    "bleeding": bleeding.tasks,
    "verifiers_words": verifiers_words.tasks,
    "evaluated": evaluated.tasks,
    "forged_programs": forged_programs.tasks,
    "hardened": in_memory.tasks,
}
"""Tasks in memory, by what makes them; made anew for each run, since some keep what happened to them."""
IN_MACHINES: Mapping[str, Callable[[], Sequence[MachineTask]]] = {
    "missing_files": missing_files.tasks,
    "leaks_on_disk": leaks_on_disk.tasks,
    "forged_rewards": forged_rewards.tasks,
    "worthless_work": worthless_work.tasks,
    "hardened_machines": in_machines.tasks,
}
"""Tasks with a shell in process sandboxes."""
SEEDED_OF_EACH, HARDENED = 20, 50
