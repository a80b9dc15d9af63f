"""Check whether an environment's tasks can be read: their number, bad rows, duplicates."""

import time
from collections.abc import AsyncIterator

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import HubError
from rollouthub.models.credentials import Credentials
from rollouthub.protocols import REFERENCE_AGENT
from rollouthub.task import BadRow

MOST = 200_000
"""Maximum number of tasks to read."""
SHOWN = 3
SLOW = 30.0


async def task_findings(request: RunRequest, credentials: Credentials) -> AsyncIterator[Finding]:
    """Open the environments of a request and read their tasks, up to `MOST`; no episode is played."""
    plan = make_plan(
        request.model_copy(update={"model": None, "agent": REFERENCE_AGENT, "skip_bad": True, "limit": MOST})
    )
    try:
        async with open_plan(plan, credentials) as opened:
            for environment in opened.environments:
                info = environment.host.info
                yield Finding(f"environment {info.name}", "ok", f"version {info.version}, {len(info.tools)} tools")
                ids: set[str] = set()
                asked: dict[int, str] = {}
                bad: list[str] = []
                twice: list[str] = []
                alike: list[str] = []
                count, started = 0, time.perf_counter()
                async for card in opened.tasks(environment):
                    if isinstance(card, BadRow):
                        bad.append(str(card.error))
                        continue
                    count += 1
                    name = card.public.id
                    if name in ids:
                        twice.append(name)
                    ids.add(name)
                    # A hash of what is asked, not the words: there may be many, and long ones.
                    words = hash(card.public.model_dump_json(exclude={"id"}))
                    if asked.setdefault(words, name) != name:
                        alike.append(f"{asked[words]} and {name}")
                seconds = time.perf_counter() - started
                yield _count(environment.split, info.splits, count, seconds)
                if bad:
                    says = f"{len(bad):,} rows make no task: {'; '.join(bad[:SHOWN])}"
                    yield Finding("bad rows", "broken", says, "mend them, or leave them out: hub run --skip-bad")
                if twice:
                    says = f"{len(twice):,} ids come twice: {', '.join(twice[:SHOWN])}"
                    yield Finding("equal ids", "broken", says, "give each task an id of its own")
                if alike:
                    says = f"{len(alike):,} tasks are the same as another: {', '.join(alike[:SHOWN])}"
                    yield Finding("equal tasks", "poor", says, "they count double in every mean")
    except HubError as error:
        yield Finding("environment", "broken", str(error))


def _count(split: str, splits: tuple[str, ...], count: int, seconds: float) -> Finding:
    others = ", ".join(name for name in splits if name != split)
    says = f"{count:,} of the split {split!r}, read in {seconds:.1f} s" + (
        f" (other splits: {others})" if others else ""
    )
    if not count:
        return Finding("tasks", "broken", says, "name the file or another split: --set data=PATH")
    if count == MOST:
        return Finding("tasks", "ok", f"{says}; there are more")
    return Finding(
        "tasks", "poor" if seconds > SLOW else "ok", says, "hub run reads them all before it plays; use a limit"
    )
