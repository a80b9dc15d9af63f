"""A server with the command line of `vllm serve` or, with --model-path, `sglang serve`, and what tests need beside.

Answers to /health and /metrics, with --mock to chats, too. --die ends it with these words, and --orphan leaves a
process behind that has left its session. Files in the --folder steer it: `sick` makes it answer 503, and the number in
`running` is how many requests it says are in flight. There it also writes how it was started.
"""

import argparse
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


def read(path: Path) -> str:
    """A file's text; nothing where there is none."""
    return path.read_text() if path.exists() else ""


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    parser.add_argument("source", nargs="?")
    parser.add_argument("--model-path")
    parser.add_argument("--config", type=Path, default=None)
    parser.add_argument("--enable-metrics", action="store_true")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--mock", default="")
    parser.add_argument("--die", default="")
    parser.add_argument("--orphan", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    given, _ = parser.parse_known_args()
    folder: Path | None = given.folder
    if folder is not None:
        told: dict[str, Any] = {"arguments": sys.argv, "environment": dict(os.environ), "folder": str(Path.cwd())}
        if given.config is not None:
            told["config"] = {"read": json.loads(given.config.read_text()), "mode": given.config.stat().st_mode & 0o777}
        (folder / f"{os.getpid()}.started").write_text(json.dumps(told))
    if given.die:
        sys.stderr.write(f"INFO here we go\n{given.die} {os.environ.get('VLLM_API_KEY', '')}\n")
        sys.exit(3)
    if given.orphan:
        assert folder is not None
        orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (folder / "orphan").write_text(str(orphan.pid))
    if given.mock:
        from rollouthub.cli.main import main as hub

        sys.argv = ["hub", "serve", "mock", given.mock, "--host", given.host, "--port", str(given.port)]
        hub()
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running = read(folder / "running") if folder else ""
            counter = "sglang:num_running_reqs" if given.enable_metrics else "vllm:num_requests_running"
            body = f"{counter}{{engine='0'}} {running}\n".encode() if running else b""
            self.send_response(503 if folder and (folder / "sick").exists() else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    HTTPServer((given.host, given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
