"""`VerifiersGroup`: environments whose rubric scores all rollouts of a task together."""

from collections.abc import Collection, Sequence
from typing import Any, cast

from rollouthub.environment import Environment
from rollouthub.errors import SandboxOverrun, TaskError, VerifierError
from rollouthub.messages import assistant
from rollouthub.score import Score, Submission
from rollouthub_servers.foreign.deadlines import VERDICT_SHARE, seconds_left
from rollouthub_servers.foreign.said_messages import HARMLESS, all_said, said_of
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.verifiers.verifiers_env import Verifiers, VerifiersConfig, score_of

Said = list[dict[str, Any]]
_PLAIN: Said = [said_of(assistant(HARMLESS[-1]))]
_BROKEN = Score(reward=0.0, feedback="the rubric ends or never comes to an end at what was said")


class VerifiersGroup(Verifiers, Environment[VerifiersConfig]):
    """An environment with group rewards: its rollouts are played again from their transcripts, and scored together."""

    scores_transcripts = False

    # As if it had none: one sample alone has no score.
    verify = Environment[VerifiersConfig].verify  # pyright: ignore[reportAssignmentType]

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        """The library's rubric over the group; whose words end or never leave it earns 0, alone."""
        said = [all_said(self._spoken(each), HUB_TOOLS) for each in submissions]
        blamed: Collection[int] = ()
        try:
            answers = await self._together(said, seconds_left(VERDICT_SHARE))
        except SandboxOverrun as error:
            seconds = seconds_left(1.0) / (len(said) + 3)
            blamed = await self._who_breaks(said, seconds)
            if not blamed:
                raise VerifierError(f"the rubric gives the group no score: {error}") from error
            if len(blamed) == len(said):
                return [_BROKEN] * len(said)
            rest = [words for place, words in enumerate(said) if place not in blamed]
            try:
                answers = await self._together(rest, seconds)
            except SandboxOverrun as again:
                raise VerifierError(f"the rubric gives the rest of the group no score: {again}") from again
        scores = map(score_of, answers)
        return [_BROKEN if place in blamed else next(scores) for place in range(len(said))]

    async def _together(self, said: Sequence[Said], seconds: float) -> Sequence[Any]:
        try:
            async with self._runtime.session() as session:
                bound, what = min(seconds, self.config.verify_seconds), "scoring what the group said"
                given: Any = {"row": self._row, "said": said}
                answers: Any = await session.act("score_group", seconds=bound, what=what, **given)
        except SandboxOverrun:
            raise
        except TaskError as error:
            raise VerifierError(str(error), retryable=error.retryable) from error
        found = cast(list[Any], answers) if isinstance(answers, list) else []
        if len(found) != len(said):
            raise VerifierError(f"the rubric gave {len(found)} scores of {len(said)} rollouts")
        return found

    async def _who_breaks(self, said: Sequence[Said], seconds: float) -> list[int]:
        """Whose words end or never leave the rubric where all others answer plainly; nobody's, if plain answers do."""
        plain = [_PLAIN for _ in said]
        if not await self._ends(plain, seconds):
            return []
        return [
            place
            for place, words in enumerate(said)
            if not await self._ends([*plain[:place], words, *plain[place + 1 :]], seconds)
        ]

    async def _ends(self, said: Sequence[Said], seconds: float) -> bool:
        try:
            await self._together(said, seconds)
        except SandboxOverrun:
            return False
        return True
