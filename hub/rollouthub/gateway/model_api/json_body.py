"""Bodies of requests: JSON of a known shape, or words for what is wrong with them."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rollouthub.gateway.model_api.request_bounds import check_body

_T = TypeVar("_T")


def decoded(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """A request's body.

    Raises:
        ValueError: it is not what it should be.
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
