"""An external agent that reaches the environment through the MCP Inspector's CLI alone, one process a call."""

import json
import os
import subprocess
import sys
import urllib.request

INSPECTOR = sys.argv[1:]
WHERE = ["--cli", os.environ["ROLLOUTHUB_AGENT_URL"], "--transport", "http", "--format", "json"]


def inspect(*arguments):
    """What the Inspector prints."""
    done = subprocess.run([*INSPECTOR, *WHERE, *arguments], capture_output=True, text=True)
    return json.loads(done.stdout)["result"]


def main():
    """Play one episode."""
    tools = [
        {"type": "function", "function": {"name": tool["name"], "parameters": tool["inputSchema"]}}
        for tool in inspect("--method", "tools/list")["tools"]
    ]
    messages = [{"role": "user", "content": os.environ["ROLLOUTHUB_PROMPT"]}]
    while True:
        body = json.dumps({"model": os.environ["ROLLOUTHUB_MODEL"], "messages": messages, "tools": tools}).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
        with urllib.request.urlopen(asked) as answer:
            message = json.load(answer)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            result = inspect("--method", "tools/call", "--tool-name", name, "--tool-args-json", arguments)
            said = "\n".join(block["text"] for block in result["content"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


main()
