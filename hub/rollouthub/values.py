"""The base of all models that cross disk, wire or process, and arrays of numbers packed as bytes."""

import struct
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

assert sys.byteorder == "little", "packed arrays are little-endian on disk and in memory"

Number = TypeVar("Number", int, float)


class Frozen(BaseModel):
    """A model that crosses disk, wire or process: frozen, unknown fields refused, no NaN or infinity in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", ser_json_bytes="base64")


class Packed(Generic[Number]):
    """An immutable array of 4-byte little-endian numbers in one `bytes` (`raw`); compares and hashes by content.

    A list of 65,000 token ids takes megabytes as JSON numbers or Python objects and 260 kB here; comparing prefixes is
    one `bytes.startswith`.
    """

    code: ClassVar[str]
    __slots__ = ("raw",)

    def __init__(self, values: Iterable[Number] = ()) -> None:
        self.raw = self._pack(values)

    @classmethod
    def _pack(cls, values: Iterable[Number]) -> bytes:
        numbers = values if isinstance(values, list | tuple) else list(values)
        # Twice as fast as through `array`, and a prompt has thousands.
        return struct.pack(f"<{len(numbers)}{cls.code}", *numbers)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Wrap bytes that are already packed.

        Raises:
            ValueError: the length is not a multiple of four.
        """
        if len(raw) % 4:
            raise ValueError(f"{len(raw)} bytes are not a whole number of 4-byte values")
        packed = cls.__new__(cls)
        packed.raw = raw
        return packed

    def tolist(self) -> list[Number]:
        """The values as Python numbers."""
        return memoryview(self.raw).cast(self.code).tolist()  # type: ignore[call-overload]

    def view(self) -> Sequence[Number]:
        """The values without a copy, for looking up a few of many."""
        raw: Any = memoryview(self.raw)
        return raw.cast(self.code)

    def shared_prefix(self, other: "Packed[Number]") -> int:
        """Number of leading values that both arrays share."""
        shorter = min(len(self), len(other))
        if self.raw[: 4 * shorter] == other.raw[: 4 * shorter]:
            return shorter
        low, high = 0, shorter
        while low < high:
            middle = (low + high + 1) // 2
            if self.raw[: 4 * middle] == other.raw[: 4 * middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def startswith(self, other: "Packed[Number]") -> bool:
        """Whether `other` is an exact prefix."""
        return self.raw.startswith(other.raw)

    def __add__(self, other: Self) -> Self:
        return self.from_bytes(self.raw + other.raw)

    def __getitem__(self, cut: slice) -> Self:
        start, stop, step = cut.indices(len(self))
        assert step == 1, "packed arrays are cut in contiguous runs"
        return self.from_bytes(self.raw[4 * start : 4 * max(start, stop)])

    def __iter__(self) -> Iterator[Number]:
        return iter(self.tolist())

    def __len__(self) -> int:
        return len(self.raw) // 4

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tolist()!r})"

    @classmethod
    def _coerce(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.from_bytes(b64decode(value, validate=True))
        if isinstance(value, list | tuple):
            try:
                return cls(value)  # pyright: ignore[reportUnknownArgumentType]  # pack() checks each value's type
            except (struct.error, OverflowError) as error:
                raise ValueError(str(error)) from error
        raise ValueError(f"expected packed base64 or a list of numbers, got {type(value).__name__}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._coerce,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda packed: b64encode(packed.raw).decode(), when_used="json"
            ),
        )


class Int32s(Packed[int]):
    """Token ids, masks, policy versions."""

    code = "i"
    __slots__ = ()

    @property
    def has_negative(self) -> bool:
        """Whether any value is below 0; looks at the sign bits only, because prompts are long."""
        return not self.raw[3::4].isascii()


class Float32s(Packed[float]):
    """Log-probabilities; rounded to 32 bits."""

    code = "f"
    __slots__ = ()
