"""The bar of Harbor: a set made by a script is listed, and a sample played here and by plain docker.

Needs a container engine with `debian:bookworm-slim`, and no network.
"""

import random
import shutil
from pathlib import Path

from rollouthub.plugins.importers import ImportSource, find_importer
from tests.foreign.bar import Bar, Missing, say
from tests.mcp_servers.harbor_synthetic import IMAGE, SETTINGS, TRAITS, make_refused, make_tasks
from tests.mcp_servers.terminal.test_synthetic import listening, rewards_here, rewards_there

PER_TRAIT, PLAYED, REFUSED = 100, 5, 50


def measure(work: Path, quick: bool) -> Bar:
    """List the set, and compare the oracle's rewards on a sample of each trait.

    Raises:
        Missing: there is no container engine on the path.
    """
    if shutil.which("docker") is None:
        raise Missing(f"it needs Docker, with the image {IMAGE}")
    shutil.rmtree(work, ignore_errors=True)
    bar = Bar("Harbor", "rewards of reference solutions with plain docker's, on a set made by a script")
    with listening() as listener:
        make_tasks(work, PER_TRAIT * len(TRAITS), 1, listener)
        tasks = work / "tasks"
        names = sorted(path.name for path in tasks.iterdir())
        refused = make_refused(work, REFUSED)
        found = find_importer("harbor").look(ImportSource(str(tasks), "folder"), SETTINGS)
        bar.listed = sum(candidate.runs for candidate in found)
        for candidate in found:
            reasons = "; ".join(candidate.reasons)
            if (
                not all(part in reasons for part in refused.get(candidate.id, ()))
                or (candidate.id in refused) is candidate.runs
            ):
                bar.differences.append(f"{candidate.id}: {reasons or 'is taken'}")
        chance = random.Random(1)
        groups = [[name for name in names if name.startswith(f"{trait}-")] for trait in TRAITS]
        sample = [name for group in groups for name in sorted(chance.sample(group, 1 if quick else PLAYED))]
        say(f"harbor: {bar.listed} of {len(found)} are listed; {len(sample)} are played here and there")
        here = rewards_here(tasks, sample, "oracle", "", work)
        there = rewards_there(tasks, sample, "oracle")
    for name in sample:
        bar.compared += 1
        bar.equal += here.get(name) == there[name]
        if here.get(name) != there[name]:
            bar.differences.append(f"{name}: {here.get(name)} here, {there[name]} there")
    return bar
