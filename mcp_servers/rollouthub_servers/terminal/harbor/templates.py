"""`${VAR}` and `${VAR:-default}` in a task's `env`: values taken from the caller, of the variables he lets pass."""

import re
from collections.abc import Mapping

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


class MissingVariable(Exception):
    """A task asks for a variable that the caller does not let pass, or has not set."""

    def __init__(self, key: str, variable: str) -> None:
        super().__init__(
            f"env.{key} = '${{{variable}}}' asks for a variable of yours; where it may have it, set {variable} and add "
            f"""--set 'passes=["{variable}"]'"""
        )


def filled_in(templates: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """The values of a task's variables; a template is a whole value, anything else is taken as it is.

    Raises:
        MissingVariable: one has neither a value nor a default.
    """
    values: dict[str, str] = {}
    for key, template in templates.items():
        match = _TEMPLATE.fullmatch(template)
        if match is None:
            values[key] = template
            continue
        default: str | None = match.groups()[1]
        value = caller.get(match[1], default)
        if value is None:
            raise MissingVariable(key, match[1])
        values[key] = value
    return values
