"""An agent in one file with the standard library alone: asks the model, calls the tools it requests, until it answers.

Its inputs are environment variables: ROLLOUTHUB_AGENT_URL is the URL of an MCP server, OPENAI_BASE_URL that of a model,
ROLLOUTHUB_PROMPT the task. Any program that can use these two URLs can be an agent.
"""

import json
import os
import urllib.request
from typing import Any


def post(url: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, Any]:
    """Send JSON; returns the JSON of the response and its headers."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read() or "null"), answer.headers


class Tools:
    """The environment's tools, over MCP."""

    def __init__(self, url: str) -> None:
        self.url, self.headers = url, {"Accept": "application/json, text/event-stream"}
        who = {"name": "own-agent", "version": "1"}
        greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
        _, headers = post(url, body, self.headers)
        self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self.headers)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of an MCP request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return post(self.url, body, self.headers)[0]["result"]

    def listed(self) -> list[dict[str, Any]]:
        """The tools in the format of the model's API; `get_task` is left out, as the prompt holds the task."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["inputSchema"],
                },
            }
            for tool in self.ask("tools/list", {})["tools"]
            if tool["name"] != "get_task"
        ]

    def call(self, name: str, arguments: str) -> str:
        """The text of a tool's result."""
        result = self.ask("tools/call", {"name": name, "arguments": json.loads(arguments)})
        return "\n".join(block.get("text", "") for block in result["content"])


def main() -> None:
    """Play one episode."""
    tools = Tools(os.environ["ROLLOUTHUB_AGENT_URL"])
    shown = tools.listed()
    messages: list[dict[str, Any]] = [{"role": "user", "content": os.environ["ROLLOUTHUB_PROMPT"]}]
    while True:
        asked = {"model": os.environ["ROLLOUTHUB_MODEL"], "messages": messages, "tools": shown}
        url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
        answer, _ = post(url, asked, {"Authorization": f"Bearer {key}"})
        message = answer["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            result = tools.call(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


if __name__ == "__main__":
    main()
