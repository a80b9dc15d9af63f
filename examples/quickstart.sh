#!/bin/sh
# Everything from a bare Debian or Ubuntu with Python 3.11+ to the first scored rollouts: .venv, the hub, eight tasks.
set -eu
cd "$(dirname "$0")/.."
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  as_root=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $as_root apt-get update -qq
  $as_root apt-get install -y -qq python3-venv
fi
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[dev]'
.venv/bin/hub run arithmetic --limit 8
