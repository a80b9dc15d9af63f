"""Server-sent events of the dialects' streams."""

from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode


def event(kind: str, fields: dict[str, Any]) -> bytes:
    """One named event; its data repeats the name as `type`."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode({"type": kind, **fields}))
