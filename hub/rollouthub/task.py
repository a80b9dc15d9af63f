"""One task, in two halves of different types: the public half for the agent, and the secret half for the verifier."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar

from pydantic import Field, JsonValue, SerializationInfo, model_serializer

from rollouthub.errors import DataError
from rollouthub.messages import Message
from rollouthub.values import Frozen

if TYPE_CHECKING:
    Answer: TypeAlias = Any  # a subclass may narrow it (`answer: int = 0`)
else:
    Answer = JsonValue


class Public(Frozen):
    """The half of a task that the agent may see. Subclass it to add typed fields."""

    id: str
    """Unique within the split."""
    prompt: str | tuple[Message, ...]
    """The problem, as text or as a conversation."""
    system: str | None = None
    """A system message to put first."""
    source: str | None = None
    """The data set the row came from; mixed data sets choose rewards by it."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Facts that a viewer may show and a query may filter by."""


class Secret(Frozen):
    """The half of a task that only the verifier may see. Subclass it to add typed fields.

    It serialises only under `context={"privileged": True}`, so that no route, log or record can contain it by accident.
    """

    of_seats: ClassVar[frozenset[str]] = frozenset()
    """Names of fields that hold something for single seats: an environment shows each seat only its own part."""

    answer: Answer = None
    """The expected answer, if it is one value."""
    reference: tuple[Message, ...] = ()
    """A solution as assistant messages, tool requests included; the oracle plays it."""

    @model_serializer(mode="wrap")
    def _guard(self, handler: Any, info: SerializationInfo) -> dict[str, Any]:
        context: Any = info.context
        if not (isinstance(context, dict) and context.get("privileged") is True):  # pyright: ignore[reportUnknownMemberType]
            raise PermissionError("the secret half of a task was about to be serialised outside the control plane")
        return handler(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    __str__ = __repr__

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Returns nothing, because pretty printers such as rich's tracebacks use this instead of `repr`."""
        return []

    def __getstate__(self) -> NoReturn:
        raise PermissionError("the secret half of a task does not leave its process")


class AuditFacts(Frozen):
    """What an audit must know of a task besides its public half and its reference solution. Never shown to an agent."""

    null_reward: float = 0.0
    """The reward that doing nothing earns on this task, by its own rules."""
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """The texts of the task's own files (tests, solution, image), by path within the task."""


PublicT = TypeVar("PublicT", bound=Public, covariant=True)
SecretT = TypeVar("SecretT", bound=Secret, covariant=True)

PRIVILEGED = {"privileged": True}


@dataclass(frozen=True)
class Task(Generic[PublicT, SecretT]):
    """One problem: `Task(public, secret)`. Only `public` can be serialised towards an agent."""

    public: PublicT
    secret: SecretT

    @property
    def id(self) -> str:
        """The task's id within its split."""
        return self.public.id

    @cached_property
    def digest(self) -> str:
        """A digest of both halves, so that a changed answer makes a changed task."""
        digest = hashlib.sha256(self.public.model_dump_json().encode())
        digest.update(self.secret.model_dump_json(context=PRIVILEGED).encode())
        return "sha256:" + digest.hexdigest()[:32]

    def __reduce__(self) -> NoReturn:
        raise PermissionError("a task holds its secret half and does not leave its process; send `task.public`")


@dataclass(frozen=True)
class BadRow:
    """A row that cannot become a task, yielded among the tasks; the run stops at it unless bad rows are skipped."""

    error: DataError
