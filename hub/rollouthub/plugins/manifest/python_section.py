"""`[python]`: an environment written in Python, as a class of a distribution."""

from typing import Annotated

from pydantic import Field

from rollouthub.frozen import Frozen

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=100)]


class PythonSection(Frozen, defer_build=True):
    """`[python]`: the class, and the distribution it comes in."""

    entry: Annotated[str, Field(pattern=rf"^{_NAME}(\.{_NAME})*:{_NAME}$")]
    """`package.module:Class`, an `Environment` or a `Preset`; as an entry point names it."""
    distribution: Name
    """What its wheel is called: the `name` in pyproject.toml."""
    extras: tuple[Name, ...] = ()
    """Optional dependencies of the distribution that it needs, as its pyproject.toml names them."""
