"""Remembers answers, to repeat them to an app that asks the same after the episode's end."""

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


class _RelayedMessage(msgspec.Struct):
    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")


class _Answer(msgspec.Struct):
    id: int | str | float | msgspec.UnsetType | None
    result: msgspec.Raw
    jsonrpc: str = "2.0"


_messages = msgspec.json.Decoder(_RelayedMessage)
_NOTHING = msgspec.Raw(b"{}")


class Memory:
    """Remembers the answers to requests whose answer does not change, such as lists of tools."""

    def __init__(self) -> None:
        self._asked: dict[object, str] = {}
        self._answers: dict[str, msgspec.Raw] = {"ping": _NOTHING}

    def heard(self, line: bytes) -> None:
        """Note a message from the app."""
        message = _read(line)
        if message is not None and message.method in _LISTED and message.id is not msgspec.UNSET:
            self._asked[message.id] = message.method

    def said(self, line: bytes) -> None:
        """Remember an answer that was sent to the app."""
        if not self._asked:
            return
        message = _read(line)
        if message is not None and message.method is None:
            method = self._asked.pop(message.id, None)
            if method is not None and bytes(message.result):
                self._answers[method] = message.result.copy()

    def answer(self, line: bytes) -> bytes | None:
        """The remembered answer to the same request; None if there is none."""
        message = _read(line)
        if message is None or message.id is msgspec.UNSET or message.method not in self._answers:
            return None
        return msgspec.json.encode(_Answer(message.id, self._answers[message.method]))


def _read(line: bytes) -> _RelayedMessage | None:
    try:
        return _messages.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
