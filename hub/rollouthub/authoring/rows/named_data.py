"""The pinned data of a named benchmark, which is an environment whose default data are files elsewhere."""

from pydantic import ValidationError

from rollouthub.authoring.rows.pinned_data import PinnedData
from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.environments import FoundEnvironment, find_environment


def named_data(name: str) -> PinnedData:
    """The data that `hub fetch NAME` brings, for a name or the path of an environment.

    Raises:
        UnknownNameError: nothing has this name.
        ConfigError: the environment pins no data, or is other people's code that this process does not run.
    """
    plugin = plugins(ENVIRONMENTS).get(name)
    if plugin is not None and not plugin.is_shipped:
        raise ConfigError(f"{name!r} is the code of {plugin.distribution!r}, which is not run to ask what it pins")
    data = data_of(find_environment(name))
    if data is None:
        raise ConfigError(f"{name!r} pins no data that could be fetched; `hub list --available` names what does")
    return data


def data_of(found: FoundEnvironment) -> PinnedData | None:
    """The data that an environment pins by default; None where it pins none.

    Raises:
        ConfigError: what it pins is no set of files.
    """
    data = found.defaults.get("data")
    if not isinstance(data, dict):
        return None
    try:
        return PinnedData.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"the data of {found.name!r} are not pinned: {error.errors()[0]['msg']}") from error
