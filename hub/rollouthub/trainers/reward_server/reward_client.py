"""A blocking client of a reward server, for trainers without an event loop. Failed requests are retried; a reward is
never made up.
"""

import http.client
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rollouthub.errors import ConfigError, CredentialError, VerifierError
from rollouthub.models.address import is_loopback
from rollouthub.trainers.reward_server.open_reward_server import TOKEN_VARIABLE

URL_VARIABLE = "ROLLOUTHUB_REWARD_URL"
"""Environment variable with the server's URL, used where none is given."""
_TRIED_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_MAX_REPLY_BYTES = 64 * 2**20


class _RetryableFailure(Exception):
    """A failure after which the request is tried again."""


@dataclass(frozen=True)
class RewardClient:
    """A client of one reward server. It keeps no connection open, so threads and forked processes may share it."""

    url: str = ""
    """The server's URL; if empty, `$ROLLOUTHUB_REWARD_URL`."""
    token: str | None = field(default=None, repr=False)
    """The server's token; if None, `$ROLLOUTHUB_REWARD_TOKEN`, which may be unset for a server without a token."""
    timeout_seconds: float = 180.0
    """Socket timeout of one try, in seconds."""
    tries: int = 5

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request and return the decoded reply.

        Raises:
            ConfigError: no server is named, or it answers that the request is invalid.
            CredentialError: the server refuses the token, or the token would be sent unencrypted over a network.
            VerifierError: no try got an answer.
        """
        url = (self.url or os.environ.get(URL_VARIABLE, "")).rstrip("/")
        if not url:
            raise ConfigError(f"no reward server is named: give its url, or set {URL_VARIABLE} (`hub serve rewards`)")
        token = self.token if self.token is not None else os.environ.get(TOKEN_VARIABLE)
        if token and url.startswith("http:") and not is_loopback(url):
            raise CredentialError(f"the token would go to {url} in the clear; give the server's https:// address")
        content = json.dumps(body).encode()
        problem: Exception | None = None
        for number in range(self.tries):
            if number:
                time.sleep(min(2.0 ** (number - 1) * 0.5, 8.0))
            try:
                return self._ask(url, path, content, token)
            except (OSError, http.client.HTTPException, _RetryableFailure) as error:
                problem = error
        raise VerifierError(f"{url}{path} gave no rewards in {self.tries} tries; the last: {problem}") from problem

    def _ask(self, url: str, path: str, content: bytes, token: str | None) -> Any:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{url!r} is no address of a reward server; write it like http://127.0.0.1:8712")
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=self.timeout_seconds, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.timeout_seconds)
        try:
            connection.request("POST", parts.path + path, content, headers)
            with connection.getresponse() as response:
                answer, status = response.read(_MAX_REPLY_BYTES + 1), response.status
        finally:
            connection.close()
        if status == 200 and len(answer) <= _MAX_REPLY_BYTES:
            try:
                return json.loads(answer)
            except ValueError as error:
                raise _RetryableFailure(f"HTTP 200, and no JSON: {answer[:200].decode(errors='replace')!r}") from error
        said = _problem(answer)
        if status in _TRIED_AGAIN:
            raise _RetryableFailure(f"HTTP {status}: {said}")
        if status in (401, 403):
            raise CredentialError(f"{url} refuses the token ({said}); set {TOKEN_VARIABLE} to the server's")
        raise ConfigError(f"{url}{path} answered HTTP {status}: {said}")


def _problem(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")
