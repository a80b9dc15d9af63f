"""The state of a connection to a server: its log, its unrequested messages, and the error that broke it."""

from mcp_types import JSONRPCNotification

LOG_BYTES = 4_000
"""Last bytes of a server's stderr that are kept for error messages."""
MESSAGE_BYTES = 16 * 1024 * 1024
"""Most bytes of one message of a server."""
UNASKED_BYTES = 16 * 1024 * 1024
"""Most bytes that a server may send without answering a request."""
LIST_CHANGED = "notifications/tools/list_changed"


class Wire:
    """The state of one server's connection during one episode."""

    def __init__(self) -> None:
        self.broken: str | None = None
        """Why the connection is broken; None while it works."""
        self.has_changed_tools = False
        """Whether the server announced a changed tool list."""
        self.has_spoken = False
        """Whether a message has arrived; before that, other text on stdout is ignored."""
        self._log = bytearray()
        self._unasked = 0

    def breaks(self, reason: str) -> None:
        """Record why the connection broke; only the first reason is kept."""
        self.broken = self.broken or reason

    def logs(self, data: bytes) -> None:
        """Append to the server's log, of which the end is kept."""
        self._log += data
        del self._log[:-LOG_BYTES]

    def hears(self, message: object, size: int) -> bool:
        """Record a message; returns whether the session should get it (it gets no notifications)."""
        self.has_spoken = True
        is_notification = isinstance(message, JSONRPCNotification)
        if is_notification and message.method == LIST_CHANGED:
            self.has_changed_tools = True
        if is_notification or hasattr(message, "method"):
            self.is_flooded(size)
        else:
            self._unasked = 0
        return not is_notification

    def is_flooded(self, size: int) -> bool:
        """Count bytes that answer no request; returns whether the connection is broken."""
        self._unasked += size
        if self._unasked > UNASKED_BYTES:
            self.breaks(f"sent more than {UNASKED_BYTES:,} bytes without answering anything")
        return self.broken is not None

    def describe(self, what: str) -> str:
        """The text, followed by the end of the server's log."""
        log = self._log.decode("utf-8", "replace").strip()
        return f"{what}; its stderr ends: {log}" if log else what
