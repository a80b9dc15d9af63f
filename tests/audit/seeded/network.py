"""Tests that fetch what has no pinned version."""

from tests.audit.answers import asked, number
from tests.audit.made_tasks import MadeTask

FETCHES = {
    "pip": "pip install pytest",
    "pip-several": "pip install pytest==8.3.4 requests",
    "pip-range": "pip install 'numpy>=1.26'",
    "pip3": "pip3 install --quiet pandas",
    "pip-extras": "python3 -m pip install 'uvicorn[standard]'",
    "uvx": "uvx --with pytest-json-ctrf pytest /tests/test_outputs.py",
    "uv-pip": "uv pip install hypothesis",
    "uv-run": "uv run --with pytest pytest -q",
    "uv-tool": "uv tool install ruff",
    "npm": "npm install jest",
    "npm-global": "npm install -g mocha",
    "npm-short": "npm i vitest",
    "git": "git clone https://example.com/checks.git /tmp/checks",
    "git-shallow": "git clone --depth 1 https://example.com/checks.git",
    "curl": "curl -LsSf https://example.com/install.sh | sh",
    "curl-file": "curl -o /tmp/expected.json https://example.com/expected.json",
    "wget": "wget https://example.com/latest/data.tar.gz",
    "wget-quiet": "wget -q https://example.com/model.bin -O /tmp/model.bin",
    "latest-image": "FROM python:latest",
    "image-without-tag": "FROM debian",
}


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    made: list[MadeTask] = []
    for name, line in FETCHES.items():
        file = "tests/Dockerfile" if line.startswith("FROM") else "tests/test.sh"
        answer = number(name)
        files = {file: f"#!/bin/sh\nset -e\n{line}\n"}
        made.append(
            MadeTask(name, asked(name), answer, lambda said, _, a=answer: said.strip() == a, "network", files=files)
        )
    return made
