"""Serving an installed environment by hand: its own interpreter does it, in the place of this process."""

import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

from pydantic import JsonValue

from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.hosting.open_host import open_installed
from rollouthub.hosting.role_endpoints import serve_roles
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import load_credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.installed import Installation

TOOLS_VARIABLE = "ROLLOUTHUB_SERVED_TOOLS"
"""Tells the process that serves which tools were seen to be those that were published: it lists them anew."""


async def see_that_it_is_sound(
    installation: Installation, settings: Mapping[str, JsonValue], roles: Mapping[str, ModelConfig]
) -> str:
    """Serve an installed environment once, to check its bytes and tools; returns the digest of the tools.

    Raises:
        UsageError: they are not what was installed, or it cannot be served as asked.
        TaskError: its server does not start.
    """
    async with AsyncExitStack() as stack:
        credentials = load_credentials(os.environ, Path.cwd())
        models = {
            role: await stack.enter_async_context(open_model(model, credentials)) for role, model in roles.items()
        }
        endpoints = await stack.enter_async_context(serve_roles(models))
        host = await stack.enter_async_context(open_installed(installation, settings, endpoints, wall="none"))
        return host.info.tools_digest


def hand_over(installation: Installation, name: str, tools_digest: str) -> NoReturn:
    """Become the process that serves it: this one's arguments, with the file in the place of the name."""
    # A hub in the environment's interpreter may be older than the options of walls, which mean nothing there.
    words = [word for word in sys.argv[1:] if word != "--trust" and not word.startswith("--wall=")]
    if "--wall" in words:
        place = words.index("--wall")
        del words[place : place + 2]
    arguments = [str(installation.file) if word == name else word for word in words]
    variables = ServerProgram.of(installation).environment(os.environ)
    variables[TOOLS_VARIABLE] = tools_digest
    if token := os.environ.get(TOKEN_VARIABLE):
        variables[TOKEN_VARIABLE] = token
    sys.stdout.flush()
    os.execve(installation.hub[0], [*installation.hub, *arguments], variables)
