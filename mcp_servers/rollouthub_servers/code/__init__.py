"""`code`: functions to complete, checked by tests (HumanEval's format).

The agent's code and the tests never share a sandbox; every program gets a fresh one.
"""

import ast
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from pydantic import Field, JsonValue

from rollouthub import (
    BadRow,
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    SandboxedConfig,
    SandboxSpec,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)
from rollouthub.authoring.rows import PinnedData, Row
from rollouthub.messages import assistant
from rollouthub.sandbox import Finished, SandboxFileError
from rollouthub_servers import table_config
from rollouthub_servers.code.code_verdict import examine
from rollouthub_servers.code.programs import PYTHON, SPEC, WALL_FACTOR, limit, limits
from rollouthub_servers.table_config import TableConfig

__all__ = ["Code", "CodeConfig", "CodeSecret"]

FILE = "main.py"
INSTRUCTION = "Complete this Python function. Answer with the whole function in one ```python block."


class CodeConfig(SandboxedConfig, TableConfig):
    """The data set, and limits for running code."""

    data: str | PinnedData | None = None
    """A .jsonl, .json or .parquet file (.gz too), a folder with a file per split, or `hf:NAME[:CONFIG]`. Required; its
    rows have the columns task_id, prompt, entry_point, test and, for the oracle, canonical_solution."""
    instruction: str = INSTRUCTION
    """Text before every function; empty for none."""
    run_seconds: float = Field(default=10.0, ge=1, le=600)
    """CPU seconds for one `run_python`; its wall time may be six times as long."""
    check_seconds: float = Field(default=10.0, ge=1, le=40)
    """CPU seconds that all tests of an answer together may cost it; an answer that costs more has failed."""
    output_bytes: int = Field(default=16_000, ge=200, le=1_000_000)
    """Most bytes kept of each output stream of `run_python`, half from its beginning and half from its end."""


class CodeSecret(Secret):
    """The tests, and the code of the prompt, which the tests may use."""

    prompt: str
    test: str
    entry_point: str


class Code(Environment[CodeConfig]):
    """Python functions to complete, checked by hidden tests; code runs in a sandbox."""

    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The splits of the data set."""
        assert isinstance(config, CodeConfig)
        return config.rows().splits()

    @classmethod
    def tasks(cls, config: CodeConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return config.tasks(split, partial(_task, config))

    @classmethod
    def specs(cls, config: CodeConfig) -> Sequence[SandboxSpec]:
        """The one sandbox specification for all programs."""
        return (SPEC,)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The module that reads rows, since it also determines the tasks."""
        return (Path(table_config.__file__),)

    @tool
    async def run_python(self, code: str) -> str:
        """Run a Python program and read what it prints.

        Each call starts anew: no variables, files or processes are left from the call before. The standard library is
        there, the network is not to be relied on.

        Args:
            code: The whole program.
        """
        seconds = self.config.run_seconds
        async with limit(), self.open_sandbox(SPEC) as sandbox:
            file = f"{sandbox.workdir}/{FILE}"
            try:
                await sandbox.write_file(file, code.encode("utf-8", "surrogatepass"))
            except SandboxFileError as error:
                raise ToolError(f"the program could not be written to a file: {error}") from error
            finished = await sandbox.exec(
                (*PYTHON, "-u", file),  # what it printed is there even where it is stopped
                cwd=sandbox.workdir,
                timeout_seconds=WALL_FACTOR * seconds,
                output_bytes=self.config.output_bytes,
                limits=limits(seconds),
                keeps_background=False,
            )
        return _told(finished, seconds)

    def snapshot(self) -> JsonValue:
        """Nothing: every program starts anew, and the answer is the agent's last message."""
        return {}

    async def restore(self, state: JsonValue) -> None:
        """There is nothing to return to."""

    @property
    def _secret(self) -> CodeSecret:
        secret = self.task.secret
        assert isinstance(secret, CodeSecret)
        return secret

    def reference(self) -> Sequence[Message]:
        """Run the solution once, then answer with it; empty if the row has none."""
        secret = self._secret
        if not isinstance(secret.answer, str):
            return ()
        solution = secret.prompt + secret.answer
        request = ToolRequest(id="reference-1", name="run_python", arguments=json.dumps({"code": solution}))
        return (assistant("", request), assistant(f"```python\n{solution}\n```"))

    async def verify(self, submission: Submission) -> Score:
        """Run the tests on the function in the final message or submission."""
        secret = self._secret
        if not submission.final.strip():
            return Score(reward=0.0, passed=False, feedback="there is no answer")
        verdict = await examine(
            self.open_sandbox,
            prompt=secret.prompt,
            test=secret.test,
            entry_point=secret.entry_point,
            answer=submission.final,
            cpu_seconds=self.config.check_seconds,
            known=secret.prompt + secret.answer if isinstance(secret.answer, str) else None,
        )
        return Score(reward=float(verdict.passed), passed=verdict.passed, feedback=verdict.why)


def _told(finished: Finished, seconds: float) -> str:
    """A finished program's output and ending, as the model sees them."""
    if finished.timed_out:
        ending = f"stopped after {WALL_FACTOR * seconds:g} seconds"
    elif finished.used_up_its_cpu:
        ending = f"stopped after {seconds:g} seconds of CPU time"
    else:
        ending = f"exit status {finished.exit_status}"
    if finished.out_of_memory:
        ending += ", out of memory"
    parts = [text for text in (finished.stdout.text.rstrip("\n"), finished.stderr.text.rstrip("\n")) if text]
    return "\n".join([*parts, f"[{ending}]"])


def _task(config: CodeConfig, task_id: str, row: Row) -> Task[Public, Secret]:
    prompt, test, entry_point = (_text(row, column) for column in ("prompt", "test", "entry_point"))
    if not entry_point.isidentifier():
        raise row.error(f"column 'entry_point' must name a function, this is {entry_point!r:.100}")
    _require_check(row, test)
    solution = row.values.get("canonical_solution")
    if solution is not None and not isinstance(solution, str):
        raise row.error(f"column 'canonical_solution' must be text, this is {solution!r:.100}")
    asked = f"{config.instruction}\n\n```python\n{prompt.strip()}\n```" if config.instruction else prompt
    return Task(
        Public(id=task_id, prompt=asked, metadata={"entry_point": entry_point}),
        CodeSecret(answer=solution, prompt=prompt, test=test, entry_point=entry_point),
    )


def _text(row: Row, column: str) -> str:
    if column not in row.values:
        known = ", ".join(str(name) for name in row.values)
        raise row.error(f"missing column {column!r}; the columns are: {known or 'none'}")
    value = row.values[column]
    if not isinstance(value, str) or not value.strip():
        raise row.error(f"column {column!r} must be text, this is {value!r:.100}")
    return value


def _require_check(row: Row, test: str) -> None:
    try:
        statements = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise row.error(f"column 'test' is not Python: {error}") from error
    if not any(isinstance(statement, ast.FunctionDef) and statement.name == "check" for statement in statements):
        raise row.error("column 'test' defines no function check(candidate)")
