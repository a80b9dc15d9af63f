#!/usr/bin/env bash
# What this project did not write, for `pytest -m live`: MCP servers and clients from PyPI (in a venv of their own, for
# they need the Python SDK's 1.x line) and from npm. Everything lies in .ci/foreign/; run again, it installs what is missing.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:-python3}")")
cd "$(dirname "$0")"
mkdir -p foreign
if [ ! -x foreign/venv/bin/mcp-server-sqlite ]; then
  "$python" -m venv foreign/venv
  PIP_CONSTRAINT='' foreign/venv/bin/pip install -q --disable-pip-version-check 'mcp-server-sqlite==2025.4.25' 'mcp==1.30.0'
fi
if [ ! -x foreign/node_modules/.bin/mcp-server-filesystem ] || [ ! -d foreign/node_modules/@modelcontextprotocol/sdk ]; then
  npm install --silent --no-audit --no-fund --prefix foreign \
    '@modelcontextprotocol/server-filesystem@2026.8.31' '@modelcontextprotocol/sdk@1.32.2'
fi
