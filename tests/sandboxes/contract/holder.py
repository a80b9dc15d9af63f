"""A hub of its own that holds one sandbox: starts programs in it, says so, and waits to be killed."""

import os
import sys

import anyio

from tests.sandboxes.contract.conftest import SPEC, open_kind

PROGRAM = (
    "setsid sleep {0} & ( sleep {0} & ) & "
    "sh -c 'trap \"\" TERM INT HUP; echo up; sleep {0}; sleep {0}' & sleep {0}; sleep {0}"
)
"""Four sleepers: of a session of its own, forked twice, of a shell that heeds no signal, and a plain child."""


async def hold(kind: str, seconds: str) -> None:
    """Hold the sandbox for ever."""
    async with (
        open_kind(kind) as provider,
        provider.open(SPEC) as sandbox,
        sandbox.start(PROGRAM.format(seconds)) as program,
    ):
        await anext(aiter(program.output()))
        os.write(1, b"up\n")
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(hold, sys.argv[1], sys.argv[2])
