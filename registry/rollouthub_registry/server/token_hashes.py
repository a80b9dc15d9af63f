"""Upload tokens: each for one namespace and certain actions; only their hashes are stored."""

import hashlib
import hmac
import re
import secrets
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub_registry.names import parse_namespace

Scope = Literal["publish", "yank"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ANY = "*"
"""In place of a namespace: all namespaces; a publication still needs a key of the namespace's owners."""

_FORM = re.compile(r"envhub_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, hash BLOB NOT NULL, namespace TEXT NOT NULL, scopes TEXT NOT NULL,
    created_at TEXT NOT NULL, expires_at TEXT, revoked_at TEXT
) WITHOUT ROWID, STRICT"""


@dataclass(frozen=True)
class Token:
    """The stored facts of a token, without the token itself."""

    token_id: str
    namespace: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        """Whether it is valid, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"

    def allows(self, scope: Scope, namespace: str) -> bool:
        """Whether the token permits `scope` in a namespace."""
        return scope in self.scopes and self.namespace in (ANY, namespace)


class Tokens:
    """The tokens of a served registry, in a database that only its owner can read."""

    def __init__(self, path: Path) -> None:
        """Create the database if it does not exist."""
        self._path = path
        path.touch(mode=0o600)
        path.chmod(0o600)
        with self._open() as connection:
            connection.execute(_SCHEMA)

    def create(self, namespace: str, scopes: Iterable[Scope], expires_at: datetime | None = None) -> tuple[Token, str]:
        """Create a token; returns its facts and its text, which is not stored.

        Raises:
            UsageError: the namespace is invalid.
        """
        if namespace != ANY:
            parse_namespace(namespace)
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        chosen = _known(scopes)
        if not chosen:
            raise ConfigError(f"a token is for something: give some of {', '.join(SCOPES)}")
        token = Token(token_id, namespace, chosen, datetime.now(UTC), expires_at, None)
        row = (token_id, _hash(secret), namespace, ",".join(chosen), token.created_at.isoformat(), _text(expires_at))
        with self._open() as connection:
            connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
        return token, f"envhub_{token_id}_{secret}"

    def all(self) -> list[Token]:
        """All tokens ever created, the oldest first."""
        with self._open() as connection:
            return [_token(row) for row in connection.execute("SELECT * FROM tokens ORDER BY created_at, id")]

    def revoke(self, token_id: str) -> Token:
        """Revoke a token from the next request on.

        Raises:
            UnknownNameError: there is no token with this id.
        """
        with self._open() as connection:
            now = datetime.now(UTC).isoformat()
            connection.execute("UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", (now, token_id))
            row = connection.execute("SELECT * FROM tokens WHERE id = ?", (token_id,)).fetchone()
        if row is None:
            raise UnknownNameError("token", token_id, [token.token_id for token in self.all()])
        return _token(row)

    def find(self, text: str) -> Token | None:
        """The valid token with this text; None if there is none."""
        form = _FORM.fullmatch(text)
        token_id, secret = (form[1], form[2]) if form else ("", "")
        with self._open() as connection:
            row = connection.execute("SELECT * FROM tokens WHERE id = ?", (token_id,)).fetchone()
        # Compared in constant time, and also where there is nothing to compare with.
        is_right = hmac.compare_digest(_hash(secret), row["hash"] if row is not None else bytes(32))
        if row is None or not is_right:
            return None
        token = _token(row)
        return token if token.state(datetime.now(UTC)) == "valid" else None

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
            connection.row_factory = sqlite3.Row
            yield connection


def _hash(secret: str) -> bytes:
    """The SHA-256 of a token: a plain hash is enough for a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()


def _known(words: Iterable[str]) -> tuple[Scope, ...]:
    given = set(words)
    return tuple(scope for scope in SCOPES if scope in given)


def _text(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment is not None else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None


def _token(row: Any) -> Token:
    created = datetime.fromisoformat(row["created_at"])
    return Token(
        row["id"],
        row["namespace"],
        _known(row["scopes"].split(",")),
        created,
        _moment(row["expires_at"]),
        _moment(row["revoked_at"]),
    )
