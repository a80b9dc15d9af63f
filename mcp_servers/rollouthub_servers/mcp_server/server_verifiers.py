"""The verifiers of MCP servers: a foreign program, a judge, or a judge that compares all samples of a task.

`adapt` makes a class of one of them for each manifest.
"""

import inspect
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio

from rollouthub.authoring.judges import NamedJudge
from rollouthub.errors import VerifierError
from rollouthub.score import Score, Submission
from rollouthub_servers.mcp_server.foreign_verifier import ask_command, ask_service, question, read_token
from rollouthub_servers.mcp_server.scratch import make_scratch, remove, snapshot
from rollouthub_servers.mcp_server.server_environment import McpServer


class ForeignVerifiedServer(McpServer):
    """Scored by the command or service of the manifest."""

    async def verify(self, submission: Submission) -> Score:
        """Ask the verifier, which gets a private copy of the scratch folder."""
        verifier = self.verifier
        private = await anyio.to_thread.run_sync(make_scratch, secrets.token_hex(12))
        try:
            workdir, skipped = None, []
            if self.scratch is not None and not verifier.transcripts:
                workdir = private.workdir
                skipped = await anyio.to_thread.run_sync(snapshot, self.scratch.workdir, workdir)
            asked = question(self.task, submission, self.seed, workdir, skipped)
            if verifier.url is not None:
                token = read_token(verifier.token_variable, "verifier.token_variable")
                return await ask_service(verifier, token, asked)
            return await ask_command(verifier, self.place, private.home, private.mark, asked)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove, private.root)


class _ChosenJudge(McpServer):
    """What a judge that the manifest names adds: its models and its time."""

    judge: ClassVar[NamedJudge]

    @classmethod
    def roles(cls, config: Any) -> tuple[str, ...]:
        """The roles of the judge's models."""
        return cls.judge.roles

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The judge's module, too."""
        return [*super().sources(), Path(inspect.getfile(type(cls.judge)))]

    async def ask_judge(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        """The judge's scores of submissions to this task.

        Raises:
            VerifierError: the judge gave none, or took too long.
        """
        seconds = self.verifier.seconds * len(submissions)
        with anyio.move_on_after(seconds):
            return await self.judge.score(self.task, submissions, self.models)
        raise VerifierError(f"the judge {self.verifier.judge!r} gave no score within {seconds:g} s")


class JudgedServer(_ChosenJudge):
    """Scored by a judge, sample by sample."""

    scores_transcripts = True

    async def verify(self, submission: Submission) -> Score:
        """Ask the judge about the submission alone."""
        (score,) = await self.ask_judge([submission])
        return score


class ComparedServer(_ChosenJudge):
    """Scored by a judge that compares the samples of a task."""

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        """Ask the judge about all submissions."""
        return await self.ask_judge(submissions)
