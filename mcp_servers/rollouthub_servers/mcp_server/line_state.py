"""The state of a connection to a server: its messages beside answers, and the error that broke it."""

from mcp_types import JSONRPCNotification

LOG_BYTES = 4_000
"""Kept of the end of a server's stderr; part of every fault's words."""
MESSAGE_BYTES = 16 * 1024 * 1024
"""The longest single message a server may send."""
UNASKED_BYTES = 16 * 1024 * 1024
"""The most a server may say without answering anything."""
LIST_CHANGED = "notifications/tools/list_changed"


class Wire:
    """One server's line during one episode."""

    def __init__(self) -> None:
        self.broken: str | None = None
        """Why nothing more can be said, if so."""
        self.has_changed_tools = False
        """Whether it announced another tool list."""
        self.has_spoken = False
        """Whether a message came; before that, a banner on stdout is let pass."""
        self._log = bytearray()
        self._unasked = 0

    def breaks(self, reason: str) -> None:
        """Note why the line broke; the first reason stands."""
        self.broken = self.broken or reason

    def logs(self, data: bytes) -> None:
        """Keep the end of what the server logs."""
        self._log += data
        del self._log[:-LOG_BYTES]

    def hears(self, message: object, size: int) -> bool:
        """Note a message; whether it is the session's to read (notifications are ours alone)."""
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
        """Count what nobody asked for; whether it became too much."""
        self._unasked += size
        if self._unasked > UNASKED_BYTES:
            self.breaks(f"sent more than {UNASKED_BYTES:,} bytes without answering anything")
        return self.broken is not None

    def describe(self, what: str) -> str:
        """What happened, with the end of the server's log."""
        log = self._log.decode("utf-8", "replace").strip()
        return f"{what}; its stderr ends: {log}" if log else what
