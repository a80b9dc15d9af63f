"""`[python]`: an environment written in Python, as a class of a distribution."""

from typing import Annotated

from pydantic import Field

from rollouthub.values import Frozen

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=100)]


class PythonSection(Frozen, defer_build=True):
    """`[python]`: the environment's class, and the distribution that contains it."""

    entry: Annotated[str, Field(pattern=rf"^{_NAME}(\.{_NAME})*:{_NAME}$")]
    """`package.module:Class`, an `Environment` or a `Preset`, in the form of an entry point."""
    distribution: Name
    """Name of the distribution: the `name` in pyproject.toml."""
    extras: tuple[Name, ...] = ()
    """Extras of the distribution, from its pyproject.toml, that the environment needs."""
