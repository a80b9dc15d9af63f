#!/usr/bin/env bash
# Two MCP servers this project did not write, for `pytest -m live`: one from PyPI in a venv of its own (it needs the
# Python SDK's 1.x line), one from npm. Everything lies in .ci/foreign/; run again, it installs only what is missing.
set -euo pipefail
cd "$(dirname "$0")"
python=${1:-python3}
mkdir -p foreign
if [ ! -x foreign/venv/bin/mcp-server-sqlite ]; then
  "$python" -m venv foreign/venv
  PIP_CONSTRAINT='' foreign/venv/bin/pip install -q --disable-pip-version-check 'mcp-server-sqlite==2025.4.25' 'mcp==1.30.0'
fi
if [ ! -x foreign/node_modules/.bin/mcp-server-filesystem ]; then
  npm install --silent --no-audit --no-fund --prefix foreign '@modelcontextprotocol/server-filesystem@2026.8.31'
fi
