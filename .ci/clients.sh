#!/usr/bin/env bash
# Third-party MCP clients for `pytest -m live`: the Python SDK's 1.x line in a venv of its own, and the TypeScript SDK.
# Everything lies in .ci/clients/; run again, it installs only what is missing.
set -euo pipefail
cd "$(dirname "$0")"
python=${1:-python3}
mkdir -p clients
if [ ! -x clients/mcp1/bin/python ]; then
  "$python" -m venv clients/mcp1
  clients/mcp1/bin/pip install -q 'mcp==1.30.0'
fi
if [ ! -d clients/node_modules/@modelcontextprotocol/sdk ]; then
  npm install --silent --no-audit --no-fund --prefix clients '@modelcontextprotocol/sdk@1.32.2'
fi
