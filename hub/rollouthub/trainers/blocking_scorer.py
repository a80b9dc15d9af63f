"""A synchronous scorer, for reward functions without an event loop; its event loop runs in a thread that anyio
starts.
"""

import atexit
import ctypes
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rollouthub.engine.run_request import RunRequest, build_request, request_from_file
from rollouthub.errors import ConfigError
from rollouthub.export.task_reference import TaskReference
from rollouthub.models.credentials import Credentials
from rollouthub.score import Score
from rollouthub.task import Public
from rollouthub.trainers.policy_answer import Answer
from rollouthub.trainers.scorer import Asked, Scorer, Verdict, open_scorer

VARIABLE = "ROLLOUTHUB_SCORER"
"""Environment variable for `scorer_for()`: environment names separated by commas, or the path of a run's
configuration file.
"""


class BlockingScorer:
    """A `Scorer` with blocking methods; any number of threads may call them at once."""

    def __init__(self, portal: BlockingPortal, scorer: Scorer) -> None:
        self._portal, self._scorer = portal, scorer

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments' names."""
        return self._scorer.environments

    def score(self, task: TaskReference, answer: Answer) -> Score:
        """Score one answer, see `Scorer.score`."""
        return self._portal.call(self._scorer.score, task, answer)

    def judge(self, task: TaskReference, answer: Answer) -> Verdict:
        """Score one answer; a failure to score is reported in the verdict's `problem`, see `Scorer.judge`."""
        return self._portal.call(self._scorer.judge, task, answer)

    def judge_all(self, asked: Sequence[Asked]) -> list[Verdict]:
        """Score several answers at once, see `Scorer.judge_all`."""
        return self._portal.call(self._scorer.judge_all, asked)

    def score_all(self, asked: Sequence[Asked]) -> list[Score | None]:
        """Score several answers at once; None marks an unscored answer, see `Scorer.score_all`."""
        return self._portal.call(self._scorer.score_all, asked)

    def tasks(self, environment: str | None = None, split: str | None = None) -> list[Public]:
        """The public parts of an environment's tasks, see `Scorer.tasks`."""

        async def listed() -> list[Public]:
            return [task async for task in self._scorer.tasks(environment, split)]

        return self._portal.call(listed)

    def split_of(self, environment: str) -> str:
        """The split of the environment that tasks are taken from when none is named."""
        return self._scorer.split_of(environment)


@contextmanager
def blocking_scorer(
    environments: Sequence[str] = (),
    *,
    request: RunRequest | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Generator[BlockingScorer]:
    """Open a scorer for a caller without an event loop, see `open_scorer`:

        with blocking_scorer(["arithmetic"]) as scorer:
            rewards = [score and score.reward for score in scorer.score_all(asked)]

    Raises:
        UsageError: as `open_scorer`.
    """
    scorer = open_scorer(environments, request=request, credentials=credentials, **settings)
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(scorer) as opened:
        yield BlockingScorer(portal, opened)


class _Scorers:
    """The open scorers of one process. A forked child makes its own: it inherits the parent's memory, but not the
    threads.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self._kept: dict[str, BlockingScorer] = {}
        self._open = ExitStack()
        # Never freed: a fork that frees it on leaving would wait for its parent's thread to close what is open there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))

    def get(self, request: RunRequest) -> BlockingScorer:
        """The scorer for these settings: opened at the first request, closed when the process ends."""
        key = request.model_dump_json()
        with self.lock:
            if key not in self._kept:
                if not self._kept:
                    atexit.register(self._close)
                self._kept[key] = self._open.enter_context(blocking_scorer(request=request))
            return self._kept[key]

    def _close(self) -> None:
        if self.process == os.getpid():
            self._open.close()


_scorers: _Scorers | None = None
_making = threading.Lock()


def scorer_for(*environments: str, config: Path | str | None = None, **settings: Any) -> BlockingScorer:
    """This process's scorer for these environments: opened by the first call, and open until the process ends.

    It is for reward files, which trainers load by path and which have no place to open and close a scorer. Without
    environments and `config`, the variable `ROLLOUTHUB_SCORER` names the environments or a configuration file, whose
    settings are those of `hub run`.

    Raises:
        ConfigError: nothing names an environment.
        UsageError: as `open_scorer`.
    """
    global _scorers
    if not environments and config is None:
        given = os.environ.get(VARIABLE, "").strip()
        if not given:
            raise ConfigError(
                f"no environment is named to score for; set {VARIABLE} to its name (several with commas between them), "
                "or to a TOML file with the settings of a run"
            )
        if given.endswith((".toml", ".json")):
            config = given
        else:
            environments = tuple(name.strip() for name in given.split(",") if name.strip())
    values = {} if config is None else request_from_file(Path(config))
    if environments:
        values["environments"] = environments
    request = build_request({**values, **settings}, str(config or "scorer_for()"))
    with _making:
        if _scorers is None or _scorers.process != os.getpid():
            _scorers = _Scorers()
        scorers = _scorers
    return scorers.get(request)
