"""What an app was told once it is told again after the episode's end: an app asks at odd times, and must not break."""

import msgspec

_LISTED = frozenset(
    {
        "initialize",
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    }
)


class _Message(msgspec.Struct):
    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")


class _Answer(msgspec.Struct):
    id: int | str | float | msgspec.UnsetType | None
    result: msgspec.Raw
    jsonrpc: str = "2.0"


_messages = msgspec.json.Decoder(_Message)
_NOTHING = msgspec.Raw(b"{}")


class Memory:
    """Remembers the answers to questions that have one answer."""

    def __init__(self) -> None:
        self._asked: dict[object, str] = {}
        self._answers: dict[str, msgspec.Raw] = {"ping": _NOTHING}

    def heard(self, line: bytes) -> None:
        """The app said something."""
        message = _read(line)
        if message is not None and message.method in _LISTED and message.id is not msgspec.UNSET:
            self._asked[message.id] = message.method

    def said(self, line: bytes) -> None:
        """The app was told something."""
        if not self._asked:
            return
        message = _read(line)
        if message is not None and message.method is None:
            method = self._asked.pop(message.id, None)
            if method is not None and bytes(message.result):
                self._answers[method] = message.result.copy()

    def answer(self, line: bytes) -> bytes | None:
        """What the app is told again; None where that is not known."""
        message = _read(line)
        if message is None or message.id is msgspec.UNSET or message.method not in self._answers:
            return None
        return msgspec.json.encode(_Answer(message.id, self._answers[message.method]))


def _read(line: bytes) -> _Message | None:
    try:
        return _messages.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
