"""`RayPoolKind`: the Ray pool behind the engine's interface for kinds of pools."""

from rollouthub.cluster.open_cluster import check_cluster
from rollouthub.cluster.ray_pool import RayPool
from rollouthub.cluster.worker_handles import Terms
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.pool import Pool
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials


class RayPoolKind:
    """Pools whose episodes are played by workers on a Ray cluster."""

    async def check(self, request: RunRequest) -> None:
        """Check that the cluster answers.

        Raises:
            UsageError: it does not, or Ray is not installed.
        """
        await check_cluster(request.ray)

    def pool(self, opened: OpenPlan, run_id: str, credentials: Credentials, stop: StopSignal) -> Pool:
        """Make the pool of a run; its workers are started when it plays."""
        digests = {context.environment.name: context.environment.identity for _, context in opened.contexts(run_id)}
        terms = Terms(run_id, credentials.asked_for(), digests)
        return RayPool(opened.plan, terms, stop, opened.budgets_left())
