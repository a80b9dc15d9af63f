"""Background checks of servers that are down: a request for the list of models, so that no call is risked."""

import anyio

from rollouthub.errors import HubError, ModelError
from rollouthub.models.preflight import preflight
from rollouthub.models.router.replica import ModelReplica
from rollouthub.models.router.replicas import Replicas


async def watch(replicas: Replicas) -> None:
    """Check servers that are down whenever a check is due, for ever; a server that passes is put on trial."""
    while True:
        down = [replica for replica in replicas.all if replica.health == "down"]
        left = min((replica.due for replica in down), default=float("inf")) - replicas.now()
        if left > 0:
            await replicas.wait_for_change(max(left, 0.001))
            continue
        async with anyio.create_task_group() as checks:
            for replica in down:
                if replica.due <= replicas.now():
                    checks.start_soon(_check, replica, replicas.breaker.check_seconds)


async def _check(replica: ModelReplica, timeout_seconds: float) -> None:
    problem = f"no answer within {timeout_seconds:g} s"
    # The lane bounds its own request; this bounds the lane.
    with anyio.move_on_after(2 * timeout_seconds):
        try:
            await preflight(replica.lane, timeout_seconds)
        except HubError as error:
            problem = str(error).partition("\n")[0]
        else:
            problem = ""
    if replica.health != "down":
        return  # a call from before has been answered meanwhile
    if problem:
        replica.take_out(ModelError(problem))
    else:
        replica.put_on_trial()
