"""Names of tools that the hub adds itself: no tool of a foreign environment may have one of them."""

HUB_TOOLS = frozenset({"get_task", "submit", "reply", "listen"})
