"""`VerifiersGroup`: environments whose rubric scores all rollouts of a task together."""

from collections.abc import Sequence

from rollouthub.environment import Environment
from rollouthub.errors import TaskError, VerifierError
from rollouthub.score import Score, Submission
from rollouthub_servers.foreign.said_messages import all_said
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.verifiers.verifiers_env import Verifiers, VerifiersConfig, score_of


class VerifiersGroup(Verifiers, Environment[VerifiersConfig]):
    """An environment with group rewards: its rollouts are played again from their transcripts, and scored together."""

    scores_transcripts = False

    # As if it had none: one sample alone has no score.
    verify = Environment[VerifiersConfig].verify  # pyright: ignore[reportAssignmentType]

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        """The library's rubric over the group."""
        said = [all_said(self._spoken(each), HUB_TOOLS) for each in submissions]
        try:
            async with self._runtime.session() as session:
                answers = await session.ask("score_group", seconds=self.config.verify_seconds, row=self._row, said=said)
        except TaskError as error:
            raise VerifierError(str(error), retryable=error.retryable) from error
        return [score_of(answer) for answer in answers]
