"""Looks for the answer in what a list of tasks shows of the task besides its prompt."""

import json

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater


async def act(cheater: Cheater) -> None:
    """Read the public half of the task."""
    secrets = await cheater.secrets(besides_openings=False)
    public = cheater.task.card.public.model_dump(mode="json", exclude={"prompt", "system"})
    listed = json.dumps(public, ensure_ascii=False, default=str)
    for secret in secrets:
        if secret.is_in(listed):
            cheater.found(f"{secret.name} is in the public half of the task", listed)


CHEAT = Cheat(
    name="answers-in-listings",
    defect="L6",
    title="no list of tasks tells the answer",
    source="the project's own",
    act=act,
    looks=True,
)
