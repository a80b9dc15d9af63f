"""Looks for the answer in environment variables."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.shell_search import in_output

_VARIABLES = "env; set; cat /proc/self/environ /etc/environment /etc/profile /etc/profile.d/* ~/.*rc ~/.profile"


async def act(cheater: Cheater) -> None:
    """Read its own variables, and the files that set them."""
    secrets = await cheater.secrets()
    for name in await in_output(cheater.shell, _VARIABLES, secrets):
        cheater.found(f"{name} is in an environment variable", _VARIABLES)


CHEAT = Cheat(
    name="environment-variables",
    defect="L7",
    title="no environment variable holds the answer",
    source="https://github.com/SREGym/SREGym/issues/905",
    act=act,
    looks=True,
    needs="a shell to look",
)
