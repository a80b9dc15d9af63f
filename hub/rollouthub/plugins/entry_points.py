"""Finding environments and agents by name, through entry points: ours and anyone's use the same door.

Bare names are the hub's own; an installed distribution's are `namespace/name`. An environment may also be given as a
file (`./dice.py`, `./dice.py:Dice`), which is the caller's own code, or as an `env.toml` or the folder that holds one;
that declares a server, or names a class: of the folder's own source, or of an installed distribution.
"""

import importlib.util
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import BaseModel, JsonValue, ValidationError

from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.errors import ConfigError, UnknownNameError, describe
from rollouthub.plugins.manifest import FILE_NAME, Manifest, PythonSection, load_manifest
from rollouthub.plugins.own_source import FromSource, load_from_folder, missing_requirements
from rollouthub.plugins.preset import Preset
from rollouthub.protocols import Agent

ENVIRONMENTS, AGENTS = "rollouthub.environments", "rollouthub.agents"
ADAPTERS = "rollouthub.adapters"
"""Each makes an environment class of a manifest: called with the `Manifest`, the path of its file, and the interpreter
that `{python}` stands for."""
OURS = "rollouthub"


_held: ContextVar[Mapping[str, AnyEnvironment]] = ContextVar("held_environments")
"""Classes that are found by their own names."""


@dataclass(frozen=True)
class Plugin:
    """A registered name and the distribution that registered it."""

    name: str
    distribution: str
    entry: EntryPoint

    @property
    def is_shipped(self) -> bool:
        """Whether it comes with the hub."""
        return self.distribution == OURS

    @property
    def summary(self) -> str:
        """What its distribution says of itself."""
        return (self.entry.dist.metadata["Summary"] if self.entry.dist else None) or ""

    @property
    def version(self) -> str:
        """Its distribution's version."""
        return self.entry.dist.version if self.entry.dist else ""


@runtime_checkable
class ConfiguredAgent(Protocol):
    """The class of an agent that takes settings: it is called with a model of this type."""

    config_type: type[BaseModel]

    def __call__(self, config: Any, /) -> Any: ...


@dataclass(frozen=True)
class FoundEnvironment:
    """An environment class with the defaults it was registered with."""

    name: str
    environment: AnyEnvironment
    defaults: dict[str, JsonValue]
    summary: str
    is_trusted: bool
    """Shipped with the hub or the caller's own file; others are hosted in process only on request."""


def plugins(group: str) -> dict[str, Plugin]:
    """Every registered name of a group, in order of name.

    Raises:
        ConfigError: two distributions claim one name, or one claims a bare name that is not its to claim.
    """
    found: dict[str, Plugin] = {}
    names: dict[Distribution | None, str] = {None: "unknown"}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        if entry.dist not in names:
            assert entry.dist is not None
            names[entry.dist] = entry.dist.name  # parses all that it says of itself, every time
        distribution = names[entry.dist]
        plugin = Plugin(entry.name, distribution, entry)
        other = found.get(entry.name)
        if other is not None and other.distribution != distribution:
            raise ConfigError(
                f"{entry.name!r} is claimed by two distributions, {other.distribution!r} and {distribution!r}; "
                "uninstall one of them"
            )
        if not plugin.is_shipped and "/" not in entry.name:
            raise ConfigError(
                f"distribution {distribution!r} registers {entry.name!r}; bare names are the hub's own, "
                f"its authors must call it 'namespace/{entry.name}'"
            )
        found[entry.name] = plugin
    return found


@contextmanager
def held(environments: Iterable[AnyEnvironment]) -> Generator[None]:
    """Let classes of this process be found by their own names within the block.

    Raises:
        ConfigError: two have one name.
    """
    found: dict[str, AnyEnvironment] = {}
    for environment in environments:
        if found.setdefault(environment.__name__, environment) is not environment:
            raise ConfigError(f"two environment classes are called {environment.__name__!r}; rename one")
    token = _held.set(found)
    try:
        yield
    finally:
        _held.reset(token)


def find_environment(name: str, python: str | None = None) -> FoundEnvironment:
    """The environment a name or a file stands for.

    `python` is what `{python}` stands for in its env.toml; None is the interpreter that runs this.

    Raises:
        UnknownNameError: nothing is registered under the name.
        ConfigError: it cannot be imported, or is no environment.
    """
    if (environment := _held.get({}).get(name)) is not None:
        return FoundEnvironment(name, environment, {}, _first_line(environment), True)
    if name.endswith(".py") or ".py:" in name:
        return _from_file(name)
    if name.endswith(".toml"):
        return _from_manifest(Path(name), python)
    known = plugins(ENVIRONMENTS)
    plugin = known.get(name)
    if plugin is None:
        if (folder := Path(name)).is_dir():
            return _from_manifest(folder / FILE_NAME, python)
        raise UnknownNameError("environment", name, known, "A file of your own is given by its path: ./my_env.py")
    target = load_plugin(plugin)
    if isinstance(target, Preset):
        defaults = dict(target.defaults)
        return FoundEnvironment(name, target.environment, defaults, target.summary, plugin.is_shipped)
    if isinstance(target, type) and issubclass(target, Environment):
        environment = cast(AnyEnvironment, target)
        return FoundEnvironment(name, environment, {}, _first_line(environment), plugin.is_shipped)
    raise ConfigError(f"{name!r} ({plugin.entry.value}) is neither an Environment class nor a Preset")


def find_agent(name: str, config: dict[str, JsonValue]) -> Agent:
    """An agent, built from its configuration.

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
    """Build a configuration, with every problem named and unknown keys met with the nearest known ones.

    Raises:
        ConfigError: says which keys are wrong.
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


def load_plugin(plugin: Plugin) -> Any:
    """What a plug-in's entry point names.

    Raises:
        ConfigError: it could not be imported.
    """
    try:
        return plugin.entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{plugin.name!r} of distribution {plugin.distribution!r} ({plugin.entry.value}) could not be imported: "
            f"{describe(error)}"
        ) from error


def _from_manifest(file: Path, python: str | None) -> FoundEnvironment:
    if not file.is_file():
        raise ConfigError(f"there is no file {str(file)!r}; a registered environment is given by name, see `hub list`")
    manifest = load_manifest(file)
    if manifest.python is not None:
        return _from_python(manifest, manifest.python, file)
    adapter = plugins(ADAPTERS).get("mcp_server")
    if adapter is None:
        raise ConfigError(f"{file}: nothing installed can serve a [server]; reinstall rollouthub")
    assert manifest.server is not None
    if python is None:
        _require(manifest.server.requirements, file)
    environment = cast(AnyEnvironment, load_plugin(adapter)(manifest, file.resolve(), python or sys.executable))
    return FoundEnvironment(manifest.name, environment, {}, manifest.description, True)


def _from_python(manifest: Manifest, section: PythonSection, file: Path) -> FoundEnvironment:
    """The class that a manifest names: its source beside the file, or its distribution, installed where the hub is."""
    entry = EntryPoint(manifest.name, section.entry, ENVIRONMENTS)
    if not load_from_folder(file.parent, entry.module) and not _is_there(entry.module):
        raise ConfigError(
            f"{file}: python.entry = {section.entry!r}: there is no module {entry.module!r} here; install its "
            f"distribution {section.distribution!r}, for example with `pip install -e {file.parent}`"
        )
    target = load_plugin(Plugin(manifest.name, section.distribution, entry))
    if isinstance(target, Preset):
        preset = target
    elif isinstance(target, type) and issubclass(target, Environment):
        preset = Preset(cast(AnyEnvironment, target))
    else:
        raise ConfigError(f"{file}: python.entry = {section.entry!r} is neither an Environment class nor a Preset")
    environment = preset.environment
    if environment.version != manifest.version:
        raise ConfigError(
            f"{file}: version = {manifest.version!r}, but {section.entry} says version = {environment.version!r}; "
            "a score names one version, so they must be the same"
        )
    summary = manifest.description or preset.summary or _first_line(environment)
    return FoundEnvironment(manifest.name, environment, dict(preset.defaults), summary, True)


def _from_file(name: str) -> FoundEnvironment:
    file, _, wanted = name.partition(".py:")
    path = Path(file if file.endswith(".py") else file + ".py")
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}; a registered environment is given by name, see `hub list`")
    name = f"rollouthub_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=FromSource(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path} could not be imported: {describe(error)}") from error
    classes: dict[str, AnyEnvironment] = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Environment) and value.__module__ == module.__name__
    }
    if not classes:
        raise ConfigError(f"{path} defines no environment, that is, no subclass of rollouthub.Environment")
    if wanted:
        if wanted not in classes:
            raise UnknownNameError(f"environment class in {path}", wanted, classes)
        chosen = classes[wanted]
    elif len(classes) == 1:
        chosen = next(iter(classes.values()))
    else:
        raise ConfigError(
            f"{path} defines {len(classes)} environment classes ({', '.join(classes)}); name one: {path}:CLASS"
        )
    return FoundEnvironment(path.stem, chosen, {}, _first_line(chosen), True)


def _require(requirements: tuple[str, ...], file: Path) -> None:
    """See that what a server needs is installed where the hub is: it has no interpreter of its own yet."""
    for text, here in missing_requirements(requirements):
        raise ConfigError(
            f"{file}: server.requirements: it needs {text!r}, and here is {here or 'none'}; give it an interpreter "
            f"of its own: `hub install {file.parent.absolute()}`"
        )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
    except Exception:  # one that is there and fails; importing it says why
        return True


def _first_line(environment: AnyEnvironment) -> str:
    return (environment.__doc__ or "").strip().partition("\n")[0]
