"""The further tries of one call after the first has failed: at which servers, how many, and when."""

from dataclasses import replace
from typing import NoReturn

from rollouthub.errors import ModelError
from rollouthub.generation import ModelReply
from rollouthub.models.retry import Backoff
from rollouthub.models.router.replica import MISFIT_STATUSES, ModelReplica
from rollouthub.models.router.replicas import Replicas


class Tries:
    """Plans the tries in rounds: each server is tried once without waiting, then after a pause all again."""

    def __init__(self, owner: str, most: int, backoff: Backoff, replicas: Replicas) -> None:
        self._owner, self._most, self._backoff, self._replicas = owner, most, backoff, replicas
        self.failed: list[ModelReplica] = []
        """Servers that failed in this round, or do not serve the model."""
        self._errors: list[ModelError] = []
        self._misfits: dict[ModelReplica, ModelError] = {}
        self._places: set[str] = set()
        self._count = 0
        self._rounds = 0

    def after(
        self, replica: ModelReplica, error: ModelError, deadline: float, *, gives_up_outages: bool
    ) -> float | None:
        """Seconds to wait before the next try, after a failed one; None is to try at once.

        `gives_up_outages`: whether to stop as soon as no server takes calls, because there is a fallback model.

        Raises:
            ModelError: there is no next try.
        """
        replicas = self._replicas
        self._count += 1
        self.failed.append(replica)
        self._errors.append(error)
        self._places.add(replica.place)
        if error.status in MISFIT_STATUSES and len(replicas) > 1:
            self._misfits[replica] = error
        elif not error.retryable:
            raise error
        now = replicas.now()
        if self._count >= self._most or now >= deadline:
            self._give_up(error)
        if replicas.has_room(self.failed):
            return None
        if len(self._misfits) == len(self._places) and not replicas.is_any_open(self.failed):
            raise next(iter(self._misfits.values()))  # every server says so: it is the caller's to mend
        if gives_up_outages and not replicas.is_any_open():
            self._give_up(error)
        self._rounds += 1
        wait = self._backoff.wait_seconds(self._rounds, self._soonest())
        if now + wait >= deadline:
            self._give_up(error)
        self.failed[:] = self._misfits
        self._errors.clear()
        return wait

    def succeeded(self, reply: ModelReply) -> ModelReply:
        """The reply, with these tries counted. A server that refused the request which another server answered is
        taken out.
        """
        for replica, error in self._misfits.items():
            if replica.health == "up":
                replica.take_out(error)
        return replace(reply, retries=reply.retries + self._count)

    def _soonest(self) -> float | None:
        """The lowest `Retry-After` of the round in seconds; None if a server sent none."""
        afters = [error.retry_after_seconds for error in self._errors if error.retry_after_seconds is not None]
        return min(afters) if len(afters) == len(self._errors) else None

    def _give_up(self, last: ModelError) -> NoReturn:
        """Raise the last error, or a retryable one of the round, with the number of tries."""
        if self._count == 1:
            raise last
        error = next((error for error in reversed(self._errors) if error.retryable), last)
        servers = f" over {len(self._places)} servers" if len(self._places) > 1 else ""
        raise ModelError(
            f"{error} (after {self._count} tries{servers})",
            status=error.status,
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
        ) from last
