"""Options for addresses, shared by the `hub serve` commands."""

from typing import Annotated

from pydantic import Field

from rollouthub.settings import Option
from rollouthub.values import Frozen

PLACE = "Where"
AddressesAsJson = Annotated[
    bool, Option("--json"), Field(description="Print the addresses it serves on as one line of JSON.")
]


class ListenOptions(Frozen):
    """The host and port to listen on."""

    host: Annotated[str, Option(panel=PLACE)] = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Option(panel=PLACE)] = Field(
        default=0, ge=0, le=65535, description="Port to listen on; 0 picks a free one."
    )


class PlaneOptions(ListenOptions):
    """The address for agents, and the address of the control plane."""

    public_url: Annotated[str | None, Option(metavar="URL", panel=PLACE)] = Field(
        default=None, description="URL at which agents reach the server, if not the address that it listens on."
    )
    control: Annotated[str | None, Option(metavar="ADDRESS", panel=PLACE)] = Field(
        default=None, description="unix:PATH or HOST:PORT of the control plane; a private socket if unset."
    )

    @property
    def agents_url(self) -> str | None:
        """`public_url` without a trailing slash; None if unset."""
        return self.public_url.rstrip("/") if self.public_url else None
