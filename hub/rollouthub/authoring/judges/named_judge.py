"""`NamedJudge`: a judge as a plug-in, and the lookup by name."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, JsonValue

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.generation import Model
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.entry_points import JUDGES, load_plugin, plugins
from rollouthub.score import Score, Submission
from rollouthub.task import Task


@runtime_checkable
class NamedJudge(Protocol):
    """Scores submissions. The class is a pydantic model, whose fields are the judge's settings."""

    roles: ClassVar[tuple[str, ...]]
    """Roles of the models that it asks, as `--role` names them."""
    reads_turns: ClassVar[bool]
    """Whether it reads `submission.turns`."""
    compares: ClassVar[bool]
    """Whether it compares the samples of a task: it is then called once, with all of them; else once for each."""

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """Score submissions to one task, in their order; `models` has a model for each role.

        Raises:
            VerifierError: there are no scores.
        """
        ...


def find_judge(name: str, settings: Mapping[str, JsonValue], origin: str) -> NamedJudge:
    """Return the judge registered under a name, made with its settings; `origin` says in errors where they stand.

    Raises:
        UnknownNameError: nothing is registered under the name.
        ConfigError: it cannot be imported, refuses the settings, or is no judge.
    """
    known = plugins(JUDGES)
    plugin = known.get(name)
    if plugin is None:
        raise UnknownNameError("judge", name, known)
    kind = load_plugin(plugin)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        judge = check_config(kind, dict(settings), f"judge {name!r}", origin)
        if isinstance(judge, NamedJudge):
            return judge
    protocol = f"{NamedJudge.__module__}.{NamedJudge.__qualname__}"
    raise ConfigError(
        f"the judge {name!r} of distribution {plugin.distribution!r} ({plugin.entry.value}) does not follow {protocol}"
    )
