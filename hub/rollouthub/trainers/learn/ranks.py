"""`Ranks`: the processes of one learner, started by `torchrun`; one leads, plays and saves, and the others follow."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from rollouthub.trainers.learn.pytorch import torch

_PATIENCE = timedelta(days=30)
"""How long a rank waits for the others: the leader plays meanwhile, far longer than torch's ten minutes."""


class Ranks:
    """This process's place among the learner's processes.

    The leader's calls that every rank must make are sent to the others, which wait in `follow`.
    """

    def __init__(self) -> None:
        """Read from `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, which `torchrun` sets; alone without them. Several join a
        process group: NCCL on GPUs, Gloo on CPUs.
        """
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        if self.count > 1 and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=_PATIENCE)

    @property
    def is_leader(self) -> bool:
        """Whether this process plays, logs and writes files."""
        return self.rank == 0

    def lead(self, method: str, *given: Any) -> None:
        """Have every follower call a method; the leader calls it, too, right after."""
        if self.count > 1 and self.is_leader:
            torch.distributed.broadcast_object_list([(method, given)], src=0)

    def follow(self, find: Callable[[str], Callable[..., Any]]) -> None:
        """Make the leader's calls until it ends; `find` gives the method of a name."""
        while True:
            received: list[Any] = [None]
            torch.distributed.broadcast_object_list(received, src=0)
            method, given = received[0]
            if not method:
                return
            find(method)(*given)

    def end(self) -> None:
        """Release the followers, and leave the process group."""
        self.lead("")
        if self.count > 1:
            torch.distributed.destroy_process_group()

    def total(self, values: Sequence[Any]) -> list[float]:
        """Each value summed over all ranks."""
        if not values:
            return []
        summed = torch.stack([torch.as_tensor(value, dtype=torch.float64, device=self.device) for value in values])
        if self.count > 1:
            torch.distributed.all_reduce(summed)
        return summed.tolist()

    def merged(self, found: dict[int, list[float]]) -> dict[int, list[float]]:
        """What each rank has found, by place, together."""
        if self.count == 1:
            return found
        parts: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(parts, found)
        return {place: values for part in parts for place, values in part.items()}
