"""Server-sent events, as the dialects stream their answers."""

from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode


def event(kind: str, fields: dict[str, Any]) -> bytes:
    """One named event; its data repeat the name as `type`."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode({"type": kind, **fields}))
