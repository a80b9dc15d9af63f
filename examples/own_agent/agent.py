"""An agent of one file, on the standard library alone: asks the model, calls the tools it asks for, until it answers.

All it needs stands in its environment: ENVHUB_AGENT_URL is an MCP server, OPENAI_BASE_URL a model, ENVHUB_PROMPT the
task. Any program that can talk to those two can play: this one shows how little that is.
"""

import json
import os
import urllib.request


def post(url, body, **headers):
    """Send JSON, read JSON."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read() or "null"), answer.headers


class Tools:
    """The environment's tools, over MCP."""

    def __init__(self, url):
        self.url, self.headers = url, {"Accept": "application/json, text/event-stream"}
        me = {"name": "own-agent", "version": "1"}
        _, headers = post(
            url, self.message("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=me), **self.headers
        )
        self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **self.headers)

    @staticmethod
    def message(method, **params):
        """A request of the protocol."""
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    def ask(self, method, **params):
        """A request's result."""
        return post(self.url, self.message(method, **params), **self.headers)[0]["result"]

    def listed(self):
        """The tools as a model is shown them."""
        return [
            {
                "type": "function",
                "function": {"name": t["name"], "description": t["description"], "parameters": t["inputSchema"]},
            }
            for t in self.ask("tools/list")["tools"]
            if t["name"] != "get_task"
        ]

    def call(self, name, arguments):
        """What a tool answers."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        return "\n".join(block.get("text", "") for block in result["content"])


def main():
    """Play one episode."""
    tools = Tools(os.environ["ENVHUB_AGENT_URL"])
    model, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    shown = tools.listed()
    messages = [{"role": "user", "content": os.environ["ENVHUB_PROMPT"]}]
    while True:
        body = {"model": os.environ["ENVHUB_MODEL"], "messages": messages, "tools": shown}
        answer, _ = post(model + "/chat/completions", body, Authorization="Bearer " + key)
        message = answer["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            result = tools.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


if __name__ == "__main__":
    main()
