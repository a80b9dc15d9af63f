"""Ids of prompts for SkyRL's step-wise training that keep the seats of a prompt's rollouts apart."""

from typing import Any


class SeatInstance(str):
    """The id of a prompt and one of its seats, for `TrajectoryID.instance_id`.

    Its text names both, and SkyRL's estimators compare rewards by that text, so each seat has a baseline of its own. It
    equals, and hashes as, the prompt's id alone, by which SkyRL counts the prompts of a batch and finds their inputs.
    """

    __slots__ = ("prompt",)
    prompt: str

    def __new__(cls, prompt: str, seat: str) -> "SeatInstance":
        made = super().__new__(cls, f"{prompt}/{seat}")
        made.prompt = prompt
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles
        return self.prompt, str(self).removeprefix(f"{self.prompt}/")

    def __eq__(self, other: object) -> bool:
        return self.prompt == (other.prompt if isinstance(other, SeatInstance) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.prompt)
