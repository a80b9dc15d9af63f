"""The command with which a person opens a shell in a container."""

from typing import Literal, cast

from pydantic import ValidationError

from rollouthub.errors import NotOffered
from rollouthub.sandbox import Container
from rollouthub_sandboxes.docker.container_layout import Layout
from rollouthub_sandboxes.docker.engine import Engine

_FOUND_BY_ITSELF = ("docker", "unix:///var/run/docker.sock")


def way_in(engine: Engine, name: str, plan: Layout) -> Container:
    """A container as `docker exec` names it, as the user that commands run as.

    Under TLS the command line is taken to know the engine's address: only its own settings say where the keys are.

    Raises:
        NotOffered: its engine or its user has a name that is not safe to hand on.
    """
    address = engine.address
    is_known = address.certificates is not None or (engine.kind, address.url) == _FOUND_BY_ITSELF
    try:
        return Container(
            engine=cast(Literal["docker", "podman"], engine.kind),
            name=name,
            address=None if is_known else address.url,
            user=plan.user,
        )
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)[0]
        raise NotOffered(f"its {told['loc'][0]} has a form that is not handed on; `hub sandbox shell {name}`") from None
