"""Find agents by name; build agents and other plug-ins from their settings."""

from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, JsonValue, ValidationError

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import AGENTS, load_plugin, plugins
from rollouthub.protocols import Agent


@runtime_checkable
class ConfiguredAgent(Protocol):
    """The class or factory of an agent that takes settings: it is called with an instance of `config_type`."""

    config_type: type[BaseModel]

    def __call__(self, config: Any, /) -> Any: ...


def find_agent(name: str, config: dict[str, JsonValue]) -> Agent:
    """Return the agent registered under a name, built from its configuration.

    Raises:
        UnknownNameError: nothing is registered under the name.
        ConfigError: it cannot be imported, refuses the configuration, or is no agent.
    """
    known = plugins(AGENTS)
    plugin = known.get(name)
    if plugin is None:
        raise UnknownNameError("agent", name, known)
    factory = load_plugin(plugin)
    if isinstance(factory, ConfiguredAgent):
        agent = factory(check_config(factory.config_type, config, f"agent {name!r}", "--agent-set"))
    elif config:
        raise ConfigError(f"agent {name!r} takes no configuration, but was given {', '.join(sorted(config))}")
    else:
        agent = factory()
    if not isinstance(agent, Agent):
        raise ConfigError(f"agent {name!r} ({plugin.entry.value}) does not follow rollouthub.protocols.Agent")
    return agent


def check_config(config_type: type[BaseModel], values: dict[str, JsonValue], owner: str, option: str) -> Any:
    """Validate a plug-in's settings and return them as an instance of `config_type`.

    One error names every problem; for an unknown key it names the nearest known keys.

    Raises:
        ConfigError: a setting is unknown, missing or invalid.
    """
    try:
        return config_type.model_validate(values)
    except ValidationError as error:
        lines: list[str] = []
        for problem in error.errors(include_url=False):
            key = ".".join(str(step) for step in problem["loc"])
            if problem["type"] == "extra_forbidden":
                lines.append(str(UnknownNameError(f"setting of {owner}", key, config_type.model_fields)))
            elif problem["type"] == "missing":
                lines.append(f"{owner} needs the setting {key!r}; give it as {option} {key}=VALUE")
            else:
                said = problem["msg"].removeprefix("Value error, ")
                lines.append(f"{owner}: {key} = {problem.get('input')!r}: {said}" if key else f"{owner}: {said}")
        raise ConfigError("\n".join(lines)) from None
