"""The token ids of each session's conversations, prompt and sampled, exactly as they were."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_types import Tool

from rollouthub.messages import Message
from rollouthub.values import Int32s

_MOST_ANSWERS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedConversation:
    """A conversation up to an answer, stored as what it adds to its parent, so that branches share their beginning."""

    parent: "TokenizedConversation | None"
    start: int
    """How many messages the parent has."""
    messages: tuple[Message, ...]
    """The added messages, and the answer."""
    tools: tuple[Tool, ...]
    added: Int32s
    """The added token ids, those of the answer last."""
    media_offsets: tuple[int, ...] = ()
    """The index of the first token of each picture or sound in the whole conversation's ids, where a format says it."""

    @property
    def message_count(self) -> int:
        """How many messages the whole conversation has."""
        return self.start + len(self.messages)

    def ids(self) -> Int32s:
        """The token ids of the whole conversation."""
        runs, held = list[bytes](), self
        while held is not None:
            runs.append(held.added.raw)
            held = held.parent
        return Int32s.from_bytes(b"".join(reversed(runs)))


class Sessions:
    """The conversations of the latest sessions; the least recently used session is forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: OrderedDict[str, list[TokenizedConversation]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, session: str, messages: Sequence[Message], tools: Sequence[Tool]) -> TokenizedConversation | None:
        """The longest conversation of a session that these messages continue; among equal ones the latest."""
        known = self._held.get(session)
        if not known:
            return None
        self._held.move_to_end(session)
        shown = tuple(tools)
        # Parents stand before their children. Equal objects compare by identity, so this costs next to nothing.
        begins = set[int]()
        best: TokenizedConversation | None = None
        for held in known:
            if held.parent is not None and id(held.parent) not in begins:
                continue
            end = held.message_count
            if end > len(messages) or held.tools != shown or tuple(messages[held.start : end]) != held.messages:
                continue
            begins.add(id(held))
            if best is None or end >= best.message_count:
                best = held
        return best

    def hold(self, session: str, held: TokenizedConversation) -> None:
        """Store a conversation, so that a later prompt can continue it."""
        known = self._held.setdefault(session, [])
        self._held.move_to_end(session)
        if len(known) >= _MOST_ANSWERS:
            known.clear()
            held = replace(held, parent=None, start=0, messages=whole(held), added=held.ids())
        known.append(held)
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)


def whole(held: TokenizedConversation) -> tuple[Message, ...]:
    """All messages of a conversation."""
    runs, each = list[tuple[Message, ...]](), held
    while each is not None:
        runs.append(each.messages)
        each = each.parent
    return tuple(message for run in reversed(runs) for message in run)
