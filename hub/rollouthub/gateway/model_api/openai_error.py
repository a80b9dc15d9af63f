"""Errors in the format of OpenAI's APIs; clients choose the exception class by the HTTP status."""

from typing import Any

from rollouthub.gateway.model_api.dialect import CallProblem

_TYPES = {
    "invalid": "invalid_request_error",
    "unauthorized": "authentication_error",
    "closed": "permission_error",
    "limit": "permission_error",
    "context": "invalid_request_error",
    "too_large": "invalid_request_error",
    "busy": "rate_limit_error",
    "failed": "server_error",
}


def openai_error(problem: CallProblem) -> dict[str, Any]:
    """The body of an error answer."""
    error = {"message": problem.message, "type": _TYPES[problem.kind], "param": None, "code": problem.code}
    return {"error": error}
