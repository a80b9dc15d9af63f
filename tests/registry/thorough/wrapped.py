"""A wrapped benchmark: its tools come from data, and its ground truth is a list of tool calls."""

from collections.abc import Iterable, Sequence
from typing import Any

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, ToolError

ORDERS: dict[str, str] = {"W2611340": "pending", "W7303089": "delivered"}


class Actions(Secret):
    """The calls that solve a task."""

    actions: tuple[dict[str, JsonValue], ...] = ()


class Retail(Environment[EnvironmentConfig, Public, Actions]):
    """Orders of a shop, changed by the tools that its data lists."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Actions]]:
        for order in ORDERS:
            prompt = f"I am user yusuf_rossi_9620. Please cancel_pending my order {order}: «no longer needed»."
            done: dict[str, JsonValue] = {
                "order_id": order,
                "reason": "no longer needed",
                "note": "refund to paypal_77",
            }
            calls: tuple[dict[str, JsonValue], ...] = (
                {"name": "get_order_details", "arguments": {"order_id": order}},
                {"name": "cancel_pending_order", "arguments": done},
            )
            yield Task(Public(id=order, prompt=prompt), Actions(actions=calls))

    @classmethod
    def more_tools(cls, config: Any) -> Sequence[Tool]:
        """As the data lists them."""
        text = {"type": "string"}
        reasons = {"type": "string", "enum": ["no longer needed", "ordered by mistake"]}
        fields = {"order_id": text, "reason": reasons, "note": text}
        return [
            _tool("get_order_details", "Look an order up.", {"order_id": text}),
            _tool("cancel_pending_order", "Cancel an order that is still pending.", fields),
        ]

    async def setup(self) -> None:
        """A database of its own."""
        self.orders, self.done = dict(ORDERS), list[dict[str, Any]]()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Change the database."""
        order = arguments["order_id"]
        if order not in self.orders:
            raise ToolError("there is no such order; get_order_details and cancel_pending_order take an order_id")
        self.done.append({"name": name, "arguments": arguments})
        return {"order_id": order, "status": self.orders[order]}

    async def verify(self, submission: Submission) -> Score | float:
        """Whether the calls were made."""
        return float(self.done == list(self.task.secret.actions))


def _tool(name: str, description: str, fields: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return Tool(name=name, description=description, input_schema=schema)
