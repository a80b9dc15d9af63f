"""Tool definitions of requests, decoded once: an agent sends the same ones with each of its calls."""

import msgspec
from mcp_types import Tool

from rollouthub.gateway.model_api.decode_cache import DecodeCache
from rollouthub.gateway.model_api.json_body import decoded
from rollouthub.gateway.model_api.request_bounds import check_tools
from rollouthub.models.direct.chat_wire import WireTool, decode_tools

_decode = msgspec.json.Decoder(list[WireTool]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_NONE = (b"", b"null", b"[]")


class KnownTools:
    """A cache of decoded tools by their JSON."""

    def __init__(self, most_bytes: int = 16 * 2**20) -> None:
        self._known: DecodeCache[tuple[Tool, ...]] = DecodeCache(most_bytes)

    def decoded(self, raw: bytes) -> tuple[Tool, ...]:
        """The tools of a chat-completions request; equal JSON gives the same objects, which are encoded quickly.

        Raises:
            ValueError: the value is not a list of function tools.
        """
        if raw in _NONE:
            return ()
        tools = self._known.get(raw)
        if tools is None:
            check_tools(decoded(_list, raw))  # before they are decoded, as each takes a while
            wire = decoded(_decode, raw)
            for place, tool in enumerate(wire):
                if tool.type != "function":
                    raise ValueError(f"tools[{place}] is of type {tool.type!r}; the model takes type 'function'")
            tools = decode_tools(wire)
            self._known.keep(raw, tools)
        return tools
