"""Decodes request bodies: JSON of a given type, or an error message that says what is wrong."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rollouthub.gateway.model_api.request_bounds import check_body

_T = TypeVar("_T")


def decoded(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode a request's body.

    Raises:
        ValueError: the body is not JSON, not of the expected form, or has too many values.
    """
    check_body(body)
    try:
        return decode(body)
    except RecursionError:
        raise ValueError("the request nests too deeply") from None
    except msgspec.ValidationError as error:
        raise ValueError(f"the request is not understood: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the request is not JSON: {error}") from None
