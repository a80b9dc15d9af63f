"""One problem, in two halves of different types: what the agent may see, and what only the verifier may."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

from pydantic import Field, JsonValue, SerializationInfo, model_serializer

from rollouthub.errors import DataError
from rollouthub.frozen import Frozen
from rollouthub.messages import Message

if TYPE_CHECKING:
    Answer: TypeAlias = Any  # a subclass may narrow it (`answer: int = 0`)
else:
    Answer = JsonValue


class Public(Frozen):
    """What the agent may see of a task. Subclass it to add typed fields."""

    id: str
    """Unique within the split."""
    prompt: str | tuple[Message, ...]
    """The problem, as text or as a ready conversation."""
    system: str | None = None
    """A system message to put first."""
    source: str | None = None
    """Where the row came from; mixed data sets route rewards by it."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Facts a viewer may show and a query may filter by."""


class Secret(Frozen):
    """What only the verifier may see of a task. Subclass it to add typed fields.

    It serialises only under `context={"privileged": True}`, so that no route, log or record can carry it by accident.
    """

    answer: Answer = None
    """The expected answer, where one value says it."""
    reference: tuple[Message, ...] = ()
    """A solution as assistant messages, tool requests included: what the oracle plays."""

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
        """Nothing: what rich's tracebacks and other pretty printers read instead of `repr`."""
        return []

    def __getstate__(self) -> NoReturn:
        raise PermissionError("the secret half of a task does not leave its process")


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
        """A content digest over both halves, so that a changed answer is a changed task."""
        digest = hashlib.sha256(self.public.model_dump_json().encode())
        digest.update(self.secret.model_dump_json(context=PRIVILEGED).encode())
        return "sha256:" + digest.hexdigest()[:32]

    def __reduce__(self) -> NoReturn:
        raise PermissionError("a task holds its secret half and does not leave its process; send `task.public`")


@dataclass(frozen=True)
class BadRow:
    """A row that cannot become a task. Yielded among tasks; the run stops at it unless bad rows are skipped."""

    error: DataError
