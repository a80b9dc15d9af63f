"""An MCP server as tasks bring it: plain JSON-RPC on stdin and stdout, or `--http PORT`; nothing but the library."""

import json
import os
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWERS: queue.Queue[dict[str, Any]] = queue.Queue()
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "whoami", "description": "Who serves.", "inputSchema": {"type": "object"}},
    {"name": "note", "description": "Keep a note.", "inputSchema": NOTE},
    {"name": "bash", "description": "Not the hub's.", "inputSchema": {"type": "object"}},
    {"name": "verify", "description": "Not the hub's either.", "inputSchema": {"type": "object"}},
    {"name": "quit", "description": "End the server.", "inputSchema": {"type": "object"}},
]


def called(name: str, arguments: dict[str, Any]) -> str:
    if name == "quit":
        os._exit(3)
    if name == "note":
        with Path(os.environ.get("NOTES", "/tmp/notes.txt")).open("a") as file:
            file.write(arguments["text"] + "\n")
        return "kept"
    return f"{name}: uid {os.getuid()}, pid {os.getpid()}"


def answered(message: dict[str, Any], headers: Any = None) -> dict[str, Any] | None:
    result: dict[str, Any]
    match message.get("method"):
        case "initialize":
            asked = message["params"]["protocolVersion"]
            result = {"protocolVersion": asked, "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "in-a-task", "version": "1"}
        case "tools/list":
            result = {"tools": TOOLS}
        case "tools/call":
            text = called(message["params"]["name"], message["params"].get("arguments") or {})
            if headers is not None and headers.get("X-Key"):
                text += f", key {headers['X-Key']}"
            result = {"content": [{"type": "text", "text": text}]}
        case _:
            if "id" not in message:
                return None
            error = {"code": -32601, "message": "no such method"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the library's name
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = answered(message, self.headers)
        if self.path == "/messages":
            if answer is not None:
                ANSWERS.put(answer)
            answer = None
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(202 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:  # the library's name
        if self.path == "/sse":
            self.stream()
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def stream(self) -> None:
        """The older transport: where to write to, and then every answer."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while True:
            self.wfile.write(b"event: message\ndata: " + json.dumps(ANSWERS.get()).encode() + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:
        return


if __name__ == "__main__":
    if "--http" in sys.argv:
        ThreadingHTTPServer(("0.0.0.0", int(sys.argv[-1])), Handler).serve_forever()  # in a container
    for line in sys.stdin:
        if (said := answered(json.loads(line))) is not None:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
