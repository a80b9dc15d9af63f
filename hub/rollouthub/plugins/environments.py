"""Find environments by registered name or by file.

A file is one of: a Python file (`./dice.py`, or `./dice.py:Dice` for one class), which is the caller's own code; or an
`env.toml`, or the folder that holds one. An `env.toml` declares an MCP server, or names a class from the folder's
source or from an installed distribution.
"""

import importlib.util
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.errors import ConfigError, UnknownNameError, describe
from rollouthub.plugins.accepted_tasks import only_accepted
from rollouthub.plugins.entry_points import ADAPTERS, ENVIRONMENTS, Plugin, load_plugin, plugins, shipped_plugin
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.file_owners import refuse_strangers
from rollouthub.plugins.manifest import Manifest, PythonSection, load_manifest
from rollouthub.plugins.own_source import FromSource, load_from_folder, missing_requirements
from rollouthub.plugins.preset import Preset

_held: ContextVar[Mapping[str, AnyEnvironment]] = ContextVar("held_environments")
"""Environment classes that `find_environment` finds by class name; set by `held`."""


@dataclass(frozen=True)
class FoundEnvironment:
    """An environment class with the name it was found by and its default configuration."""

    name: str
    environment: AnyEnvironment
    defaults: dict[str, JsonValue]
    summary: str
    is_trusted: bool
    """Whether the environment ships with the hub or was named by a path of the caller's; an untrusted one runs in
    the hub's process only on request.
    """


@contextmanager
def held(environments: Iterable[AnyEnvironment]) -> Generator[None]:
    """Within the block, let `find_environment` find these classes by their class names.

    Raises:
        ConfigError: two classes have the same name.
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
    """Return the environment that a name or a path stands for.

    `python` is the path of the interpreter that replaces `{python}` in an env.toml; None means the running interpreter.

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
            refuse_strangers(name, FILE_NAME)
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


def _from_manifest(file: Path, python: str | None) -> FoundEnvironment:
    if not file.is_file():
        raise ConfigError(f"there is no file {str(file)!r}; a registered environment is given by name, see `hub list`")
    manifest = load_manifest(file)
    if manifest.python is not None:
        return _from_python(manifest, manifest.python, file)
    assert manifest.server is not None
    adapter = shipped_plugin(ADAPTERS, "adapter of the section", "server")
    if python is None:
        _require(manifest.server.requirements, file)
    environment = cast(AnyEnvironment, load_plugin(adapter)(manifest, file.resolve(), python or sys.executable))
    return _as_declared(environment, {}, manifest.description, manifest, file)


def _as_declared(
    environment: AnyEnvironment, defaults: Mapping[str, JsonValue], summary: str, manifest: Manifest, file: Path
) -> FoundEnvironment:
    """An environment with the settings and the tasks that its manifest chooses."""
    folder = file.resolve().parent
    if manifest.accepted:
        environment = only_accepted(environment, manifest.accepted, file)
    own = {key: _placed(value, str(folder)) for key, value in manifest.settings.items()}
    return FoundEnvironment(manifest.name, environment, {**defaults, **own}, summary, True)


def _placed(value: JsonValue, folder: str) -> JsonValue:
    """A setting with `{folder}` replaced in its texts."""
    if isinstance(value, str):
        return value.replace("{folder}", folder)
    if isinstance(value, list):
        return [_placed(each, folder) for each in value]
    if isinstance(value, dict):
        return {key: _placed(each, folder) for key, each in value.items()}
    return value


def _from_python(manifest: Manifest, section: PythonSection, file: Path) -> FoundEnvironment:
    """Return the class that a manifest's `[python]` names: from source beside the manifest, else from an installed
    distribution.
    """
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
    return _as_declared(environment, preset.defaults, summary, manifest, file)


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
    """Check that the hub's own interpreter has the distributions that a declared server needs: the server has no
    interpreter of its own.
    """
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
