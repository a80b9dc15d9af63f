"""The command with which a person opens a shell in a container."""

from typing import Literal, cast

from pydantic import ValidationError

from rollouthub.errors import NotOffered
from rollouthub.sandbox import Container
from rollouthub_sandboxes.docker.container_layout import Layout
from rollouthub_sandboxes.engine.engine import Engine

_FOUND_BY_ITSELF = ("docker", "unix:///var/run/docker.sock")


def way_in(engine: Engine, name: str, plan: Layout) -> Container:
    """What `docker exec` needs to open a shell in a container: its name and the user that commands run as.

    Under TLS the engine's address is left out: the person's own Docker settings have it, together with the keys.

    Raises:
        NotOffered: the engine's address or the user has a form that is not safe in a command line.
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
