"""Commands of `hub`, run in this process as a shell would."""

import json
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from typer.testing import CliRunner

from rollouthub.errors import HubError


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str
    error: HubError | None

    @property
    def json(self) -> Any:
        """What it printed, which must be one JSON value and nothing else."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """Why it refused."""
        assert self.error is not None, self.out + self.err
        return str(self.error)


def hub(*words: str, stdin: str = "") -> Done:
    """Run one, where no loop runs."""
    from rollouthub.cli.main import app

    result = CliRunner().invoke(app, words, input=stdin)
    error = result.exception if isinstance(result.exception, HubError) else None
    assert error is not None or result.exception is None or isinstance(result.exception, SystemExit), result.output
    return Done(result.exit_code, result.stdout, result.stderr, error)


async def hub_beside(*words: str, stdin: str = "") -> Done:
    """Run one while the loop of a test goes on serving it."""
    return await to_thread.run_sync(lambda: hub(*words, stdin=stdin))
