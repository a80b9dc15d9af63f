"""A server that the hub starts: its order comes over stdin, its address goes to stdout."""

import os
from functools import partial

import anyio
from pydantic import ValidationError

from rollouthub.errors import ConfigError, UsageError, invalid_fields
from rollouthub.hosting.control_wire import Failure, problem_of
from rollouthub.hosting.launch import ServeOrder, ServerReady
from rollouthub.hosting.server.serve import Service, serve
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.hosting.server.stdio_pipe import keep_to_ourselves

MAX_ORDER_BYTES = 16 * 2**20
REFUSED = 2


def serve_ordered() -> int:
    """Serve what a line on stdin orders, and leave when stdin ends; the exit code."""
    stdin, stdout = keep_to_ourselves()

    def say(line: ServerReady | Failure) -> None:
        os.write(stdout, line.model_dump_json().encode() + b"\n")

    try:
        order = _order(stdin)
        if order is None:
            return 0
        service = Service(
            environment=order.environment,
            control_token=order.control_token,
            python=order.python,
            config=order.config,
            is_strangers=order.is_strangers,
            roles=order.roles,
            control=f"unix:{order.control_socket}" if order.control_socket else "127.0.0.1:0",
            agent_host=order.agent_host,
            agent_port=order.agent_port,
            agent_socket=order.agent_socket,
            public_url=order.agent_url,
            ttl_seconds=order.ttl_seconds,
            traces=order.traces,
        )
        return serve_to_the_end(partial(serve, service), say, partial(_end_of, stdin))
    except UsageError as error:
        say(Failure(error=problem_of(error)))
        return REFUSED


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
        raise ConfigError(f"the line on stdin orders nothing: {invalid_fields(error, 'order', 50)}") from None


async def _end_of(stdin: int) -> None:
    """Wait until the process at the other end has closed it, or has ended."""
    try:
        while True:
            await anyio.wait_readable(stdin)
            if not os.read(stdin, 65536):
                return
    except PermissionError:  # a plain file, which cannot be waited for, has no other end
        await anyio.sleep_forever()
