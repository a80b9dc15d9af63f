"""Whole numbers in the query of an address."""

from starlette.requests import Request

_MOST = 10**9


def asked_number(request: Request, name: str, otherwise: int) -> int:
    """A whole number of the query that is not negative; `otherwise` for anything else."""
    text = request.query_params.get(name, "")
    return min(int(text), _MOST) if text.isascii() and text.isdigit() and len(text) < 20 else otherwise
