"""The sections of an `env.toml` beyond a declared server: what they hold, and how their mistakes are told."""

import json
import re
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest import SECTIONS, Manifest, TaskSource, load_manifest, parse_manifest

PYTHON = """\
name = "me/sums"
version = "1.2.0"
description = "Sums."
license = "apache-2.0 or MIT"
authors = ["Someone <someone@example.org>", "Another One"]
contract = 1
homepage = "https://example.org/sums"
repository = "https://example.org/sums.git"
tags = ["math", "tool-use"]
determinism = "seeded"
secrets = ["JUDGE_KEY"]

[python]
entry = "my_sums.world:Sums"
distribution = "my-sums"

[tasks.test]
url = "https://example.org/test.jsonl"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"

[tasks.train]
hf = "someone/sums"
config = "main"
revision = "0123456789012345678901234567890123456789"

[reward]
range = [-1, 1]
better = "higher"

[sandbox]
images = ["debian@sha256:0000000000000000000000000000000000000000000000000000000000000000"]
network = "bridge"

[sandbox.resources]
cpus = 2
memory_bytes = 2_147_483_648

[adopted_from]
source = "https://example.org/older"
revision = "v3"
license = "MIT"
changes = "Other numbers."
"""
SERVER = """\
name = "me/notes"
[server]
command = ["server"]
[tasks]
test = "tasks.jsonl"
[verifier]
url = "https://example.org/verify"
token_variable = "TOKEN"
"""


def read(text: str) -> Manifest:
    return parse_manifest(text.encode())


def test_an_environment_in_python_is_described_whole() -> None:
    manifest = read(PYTHON)
    assert manifest.server is None
    assert manifest.python is not None
    assert manifest.python.entry == "my_sums.world:Sums"
    assert manifest.license == "Apache-2.0 OR MIT"
    assert manifest.tasks["train"].data == "hf:someone/sums:main@0123456789012345678901234567890123456789"
    assert manifest.reward is not None
    assert manifest.reward.range == (-1.0, 1.0)
    assert manifest.sandbox is not None
    assert manifest.sandbox.resources.cpus == 2


@pytest.mark.parametrize("text", [PYTHON, SERVER], ids=["python", "server"])
def test_a_manifest_as_json_is_the_same_manifest(text: str) -> None:
    manifest = read(text)
    assert Manifest.model_validate_json(json.dumps(manifest.model_dump(mode="json")), strict=True) == manifest


def test_a_bare_text_is_a_file_of_tasks() -> None:
    assert read(SERVER).tasks == {"test": TaskSource(file="tasks.jsonl")}


def test_the_variables_it_needs_are_its_secrets_and_its_tokens() -> None:
    assert read('secrets = ["A", "TOKEN"]\n' + SERVER).needed_variables == ("A", "TOKEN")
    assert read(SERVER).needed_variables == ("TOKEN",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"apache-2.0 or MIT"', '"Apache 2"', ":4: license = 'Apache 2': this is no SPDX licence expression"),
        ('"apache-2.0 or MIT"', '"MIT AND"', ":4: license = 'MIT AND': this is no SPDX licence expression"),
        ('"Another One"', '"Another <one>"', ":5: authors.1 = 'Another <one>': String should match"),
        ("contract = 1", "contract = 2", ":6: contract = 2: this hub speaks contract 1"),
        ("https://example.org/sums.git", "git@example.org:sums", ":8: repository = 'git@"),
        ("https://example.org/sums.git", "https://[", ":8: repository = 'https://[': Invalid IPv6 URL"),
        ('"tool-use"', '"Tool use"', ":9: tags.1 = 'Tool use'"),
        ('"seeded"', '"sometimes"', ":10: determinism = 'sometimes': Input should be 'full', 'seeded' or 'none'"),
        ('"JUDGE_KEY"', '"JUDGE_KEY=sk-1"', ":11: secrets.0 = 'JUDGE_KEY=sk-1'"),
        ("[python]\n", "[pyton]\n", ":13: there is no key 'pyton'; did you mean 'python'?"),
        ("my_sums.world:Sums", "my_sums.world", ":14: python.entry = 'my_sums.world'"),
        ("entry =", "entree =", ":14: there is no key 'python.entree'; did you mean 'entry'?"),
        ('distribution = "my-sums"\n', "", ":13: the key 'python.distribution' is missing"),
        ("hf =", "file = 'x'\nhf =", ":21: tasks.train: give exactly one of `file`, `url`, `hf`; file and hf is there"),
        ("someone/sums", "../sums", ":22: tasks.train.hf = '../sums': String should match"),
        ("config =", "confg =", ":23: there is no key 'tasks.train.confg'; did you mean 'config'?"),
        ('revision = "0123', 'revision = "v0123', ":24: tasks.train.revision = 'v0123"),
        ("sha256 =", "#", ":17: tasks.test: `url` needs the `sha256` of the file"),
        ("[-1, 1]", "[1, -1]", ":26: reward: `range` goes from the lowest to the highest reward; [1, -1] does not"),
        ("[-1, 1]", "[-1, inf]", ":26: reward: `range` goes"),
        ("[-1, 1]", "[-1, nan]", ":26: reward: `range` goes"),
        ("[-1, 1]", '["a", 1]', ":27: reward.range.0 = 'a': Input should be a valid number"),
        ('"higher"', '"up"', ":28: reward.better = 'up'"),
        ('"bridge"', '"all"', ":32: sandbox.network = 'all'"),
        ("cpus = 2", "cpu = 2", ":35: there is no key 'sandbox.resources.cpu'; did you mean 'cpus'?"),
        ("changes =", "change =", ":42: there is no key 'adopted_from.change'; did you mean 'changes'?"),
        ("[reward]", "[verifier]\ncommand = ['x']\n[reward]", ":26: 'verifier' goes with a [server]"),
        ("[reward]", "[limits]\nmax_turns = 3\n[reward]", ":26: 'limits' goes with a [server]"),
        ("tags =", "submit = false\ntags =", ":9: 'submit' goes with a [server]"),
        ("tags =", 'default_agent = "react"\ntags =', ":9: 'default_agent' goes with a [server]"),
        ("tags =", 'default_agent = "The oracle"\ntags =', ":9: default_agent = 'The oracle': String should match"),
        ("[reward]", "[server]\ncommand = ['x']\n[reward]", ":13: give one of the sections [server] and [python]"),
    ],
)
def test_a_mistake_is_told_with_line_and_key(old: str, new: str, said: str) -> None:
    assert old in PYTHON
    with pytest.raises(ConfigError) as caught:
        read(PYTHON.replace(old, new, 1))
    assert f"env.toml{said}" in str(caught.value)


def test_neither_server_nor_class_is_no_environment() -> None:
    with pytest.raises(ConfigError, match=r"the section \[server\] is missing, or .* the section \[python\]"):
        read('name = "me/nothing"\n')


def test_what_is_nested_beyond_reading_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not TOML"):
        read("x = " + "[" * 5000 + "]" * 5000)


def test_the_manuals_examples_hold() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "manifest.md").read_text()
    shown = re.findall(r"^```toml\n(.*?)^```$", manual, re.MULTILINE | re.DOTALL)
    assert [read(text).name for text in shown] == ["me/sums", "me/further"]


def test_the_manual_names_every_key() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "manifest.md").read_text()
    # Those of a server and its verifier are in any-mcp-server.md, which test_manifest.py looks at.
    models = {name: model for name, model in SECTIONS.items() if name not in ("server", "verifier")}
    keys = {f"{name}.{key}": key for name, model in {"": Manifest, **models}.items() for key in model.model_fields}
    assert [place for place, key in keys.items() if not re.search(rf"`\[?{key}\]?`|`\[{key}[\].]", manual)] == []


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[3] / "examples").rglob("env.toml")), ids=lambda file: file.parent.name
)
def test_the_examples_hold(file: Path) -> None:
    assert load_manifest(file).name
