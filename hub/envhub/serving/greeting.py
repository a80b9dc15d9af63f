"""Starting a server for the hub, over stdin and stdout, or for people, who read where it is."""

import os
import shlex
import shutil
import stat
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import anyio
import typer
from pydantic import ValidationError

from envhub.cli.run import assignments
from envhub.errors import ConfigError, UsageError
from envhub.hosting.control import Failure, problem_of
from envhub.hosting.launch import TOKEN_VARIABLE, ServeOrder, ServerReady
from envhub.models.config import ModelConfig
from envhub.serving.ending import serve_to_the_end
from envhub.serving.serve import Service, new_token

MAX_ORDER_BYTES = 16 * 2**20
REFUSED = 2
_HEADER_FILE = "control.header"
"""Beside the credential: it, as curl's `-H @FILE` takes it."""


def serve_ordered() -> int:
    """Serve what a line on stdin orders, and leave when stdin ends; the exit code."""
    stdin, stdout = _keep_to_ourselves()

    def say(line: ServerReady | Failure) -> None:
        os.write(stdout, line.model_dump_json().encode() + b"\n")

    try:
        order = _order(stdin)
        if order is None:
            return 0
        service = Service(
            environment=order.environment,
            control_token=order.control_token,
            config=order.config,
            roles=order.roles,
            control=f"unix:{order.control_socket}" if order.control_socket else "127.0.0.1:0",
            agent_host=order.agent_host,
            agent_port=order.agent_port,
            ttl_seconds=order.ttl_seconds,
        )
        return serve_to_the_end(service, say, partial(_end_of, stdin))
    except UsageError as error:
        say(Failure(error=problem_of(error)))
        return REFUSED


def _keep_to_ourselves() -> tuple[int, int]:
    """Stdin and stdout under other numbers, which no child process inherits.

    What the environment prints goes to stderr instead, and what it reads is empty: the pipes carry the greeting alone.
    """
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return kept


def _order(stdin: int) -> ServeOrder | None:
    """The order; None where there is only an end.

    Raises:
        ConfigError: it is none. What it held is not repeated: it may be secret.
    """
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(stdin, 65536)
        line += piece
        if not piece or len(line) > MAX_ORDER_BYTES:
            break
    if not line.strip():
        return None
    try:
        return ServeOrder.model_validate_json(line)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'order'}: {problem['msg']}" for problem in problems)
        raise ConfigError(f"the line on stdin orders nothing: {told}") from None


async def _end_of(stdin: int) -> None:
    """Until whoever holds the other end has closed it, or is gone."""
    try:
        while True:
            await anyio.wait_readable(stdin)
            if not os.read(stdin, 65536):
                return
    except PermissionError:  # a plain file, which cannot be waited for, has no other end
        await anyio.sleep_forever()


def serve_for_people(
    name: str,
    *,
    settings: list[str],
    roles: list[str],
    control: str | None,
    agent_host: str,
    agent_port: int,
    public_url: str | None,
    ttl_seconds: float,
    as_json: bool,
) -> int:
    """Serve what the command line says; the exit code.

    Raises:
        HubError: it cannot be served.
    """
    with ExitStack() as stack:
        given = os.environ.pop(TOKEN_VARIABLE, None)  # what the environment starts is not to inherit it
        directory: Path | None = None
        if control is None or given is None:
            directory = _private_directory()
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        token, token_file = given or new_token(), None
        if given is None and directory is not None:
            token_file = directory / "control.token"
            _write_private(token_file, token)
            _write_private(directory / _HEADER_FILE, f"Authorization: Bearer {token}")
        service = Service(
            environment=name,
            control_token=token,
            config=assignments(settings, "--set"),
            roles={role: ModelConfig(name=str(model)) for role, model in assignments(roles, "--role").items()},
            control=control or f"unix:{directory}/control.sock",
            agent_host=agent_host,
            agent_port=agent_port,
            public_url=public_url.rstrip("/") if public_url else None,
            ttl_seconds=ttl_seconds,
        )
        return serve_to_the_end(service, lambda ready: _announce(ready, token_file, as_json))


def _announce(ready: ServerReady, token_file: Path | None, as_json: bool) -> None:
    """Say where the server is; of the credential only where it is kept."""
    if as_json:
        typer.echo(ready.model_dump_json())
        return
    # curl reads the header from a file, or from the shell: what stands on a command line is everyone's to read.
    kept = f'@<(echo "Authorization: Bearer ${TOKEN_VARIABLE}")'
    if token_file is not None:
        kept = shlex.quote(f"@{token_file.with_name(_HEADER_FILE)}")
    if ready.control_url.startswith("unix:"):
        path = ready.control_url.removeprefix("unix:")
        curl = f"curl --unix-socket {shlex.quote(path)} http://control"
    else:
        curl = f"curl {ready.control_url}"
    typer.echo(
        f"serving {ready.name} (Ctrl-C stops it)\n"
        f"  agents:  {ready.agent_url}/e/TOKEN/mcp, a token for each episode's seat\n"
        f"  control: {ready.control_url}\n"
        + (f"  control credential: {token_file}\n" if token_file else "")
        + f"  try it:  {curl}/v1/environment -H {kept}"
    )


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _private_directory() -> Path:
    """A folder for a socket and a credential, which no other user can look into."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or os.devnull)
    is_private = runtime.is_dir() and not runtime.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return Path(tempfile.mkdtemp(prefix="envhub-", dir=runtime if is_private else None))
