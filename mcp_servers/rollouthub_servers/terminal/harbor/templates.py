"""`${VAR}` and `${VAR:-default}` in a task's `env`: values of the user's variables that the configuration allows."""

import re
from collections.abc import Mapping

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


class MissingVariable(Exception):
    """A task needs a variable of the user's that is not allowed or not set."""

    def __init__(self, key: str, variable: str) -> None:
        super().__init__(
            f"env.{key} = '${{{variable}}}' asks for a variable of yours; where it may have it, set {variable} and add "
            f"""--set 'passes=["{variable}"]'"""
        )


def filled_in(templates: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """The values of a task's variables; only a value that is a template as a whole is replaced.

    Raises:
        MissingVariable: a variable has neither a value nor a default.
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
