#!/usr/bin/env bash
# Training systems, for `pytest -m live tests/trainers`: what PyPI has of them, in an interpreter of their own, for they pin
# what the hub leaves open. It lies in .ci/foreign/trainers; run again, it installs what is missing. Systems that are not on
# PyPI are tested against checkouts, where ROLLOUTHUB_TRAINER_SOURCES names their folder.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:-python3}")")
cd "$(dirname "$0")"
venv=foreign/trainers
# Their own dependencies come along. NeMo-RL refuses transformers 5.12 and newer.
whole=('torch==2.13.0' 'trl==1.16.0' 'verl==0.9.1' 'transformers>=5.10,<5.12' accelerate datasets jmespath cachetools fastapi uvicorn)
# These pin other versions of what is there, or accelerators' packages: what is tested of them does without.
bare=('openrlhf==0.11.2' 'gem-llm==0.1.0' 'transferqueue==0.1.11' pyzmq prometheus-client)
bare+=('skyrl==0.3.0' 'skyrl-gym==0.4.0' loguru jaxtyping wadler-lindig torchdata)
bare+=('areal==1.0.4' 'litellm==1.81.3' 'openai==3.54.0' 'anthropic==2.12.0' flask blinker itsdangerous lark numba llvmlite einops)
bare+=(aiofiles fastuuid tiktoken pydantic-settings h2 hpack hyperframe tenacity colorlog jiter docstring-parser importlib-metadata zipp)
bare+=('tinker==0.38.0' pyqwest zstandard 'tinker-cookbook==0.5.8' chz termcolor lxml)
wanted="${whole[*]} ${bare[*]}"
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  "$python" -m venv "$venv"
  install() { "$venv/bin/pip" install -q --disable-pip-version-check "$@"; }
  PIP_CONSTRAINT="$PWD/constraints.txt" install -e .. pytest pytest-timeout pytest-xdist hypothesis "${whole[@]}"
  PIP_CONSTRAINT='' install --no-deps "${bare[@]}"
  echo "$wanted" >"$venv/installed"
fi
