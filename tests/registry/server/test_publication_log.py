"""A registry's directory as a plain file server gives it: what is published and yanked is told in files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError, StoreError
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.atomic_write import open_layout
from rollouthub_registry.server.registry import Registry, open_registry, rebuild
from tests.registry.server.publishers import Offer, Publisher


def publish(registry: Registry, offer: Offer) -> None:
    registry.publish(offer.bundle.path, offer.envelope)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(path: Path) -> dict[str, str | None]:
    """How each version stands: the last line of it holds."""
    return {f"{line['name']}@{line['version']}": line["yanked"] for line in lines(path)}


def some(root: Path, publisher: Publisher) -> None:
    """Three versions of two environments, one of them yanked."""
    with open_registry(root) as registry:
        for name, version in (("lab/words", "1.0.0"), ("lab/sums", "0.1.0"), ("lab/words", "1.1.0")):
            publish(registry, publisher.offer(name, version))
        registry.yank(Release.parse("lab/words@1.0.0"), "wrong")


STANDING = {"lab/words@1.0.0": "wrong", "lab/sums@0.1.0": None, "lab/words@1.1.0": None}


def test_every_publication_and_yank_is_a_line_of_its_package_and_of_the_catalogue(tmp_path: Path) -> None:
    root = tmp_path / "hub"
    some(root, Publisher(tmp_path))
    assert json.loads((root / "registry.json").read_text()) == {"format": 1}
    assert [line["yanked"] for line in lines(root / "packages/lab/words/versions.jsonl")] == [None, None, "wrong"]
    assert told(root / "catalog.jsonl") == STANDING
    with open_registry(root) as registry:
        listing = registry.get(Release.parse("lab/sums@0.1.0"))
        assert lines(root / "packages/lab/sums/versions.jsonl") == [listing.as_json()]


def test_what_is_said_again_is_not_written_again(tmp_path: Path) -> None:
    publisher, root = Publisher(tmp_path), tmp_path / "hub"
    some(root, publisher)
    before = (root / "catalog.jsonl").read_bytes()
    with open_registry(root) as registry:
        publish(registry, publisher.offer("lab/words", "1.0.0"))
        registry.yank(Release.parse("lab/words@1.0.0"), "another reason")
    assert (root / "catalog.jsonl").read_bytes() == before


@pytest.mark.parametrize("damage", ["torn", "absent", "garbage", "short", "of one alone", "one too many", "zeros"])
def test_files_that_do_not_agree_with_the_directory_are_made_anew(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "hub"
    some(root, Publisher(tmp_path))
    catalog, words = root / "catalog.jsonl", root / "packages/lab/words/versions.jsonl"
    match damage:
        case "torn":
            catalog.write_bytes(catalog.read_bytes()[:-7])
        case "absent":
            catalog.unlink()
        case "garbage":
            catalog.write_bytes(b'[1]\n{"name": 3}\n\xff\n')
        case "short":
            catalog.write_text("".join(line + "\n" for line in catalog.read_text().splitlines()[:-1]))
        case "of one alone":
            words.write_bytes(words.read_bytes()[:-7])
        case "one too many":
            other = catalog.read_text().splitlines()[0].replace("lab/words", "lab/other")
            catalog.write_text(catalog.read_text() + other + "\n")
        case _:
            catalog.write_bytes(catalog.read_bytes()[:-40] + bytes(40))
    with open_registry(root):
        pass
    assert told(catalog) == STANDING
    assert told(words) == {name: why for name, why in STANDING.items() if "words" in name}


def test_half_a_line_that_a_killed_process_left_is_gone_with_the_next_one(tmp_path: Path) -> None:
    publisher, root = Publisher(tmp_path), tmp_path / "hub"
    some(root, publisher)
    with open_registry(root) as registry:
        with (root / "catalog.jsonl").open("a") as torn:
            torn.write('{"name": "lab/wor')
        publish(registry, publisher.offer("lab/words", "1.2.0"))
        assert told(root / "catalog.jsonl") == STANDING | {"lab/words@1.2.0": None}


def test_a_disk_that_is_full_is_told_and_offering_it_again_mends_it(tmp_path: Path) -> None:
    publisher, root = Publisher(tmp_path), tmp_path / "hub"
    offer = publisher.offer("lab/words")
    with open_registry(root) as registry:
        (root / "catalog.jsonl").unlink()
        (root / "catalog.jsonl").symlink_to("/dev/full")
        with pytest.raises(StoreError, match="cannot be written"):
            publish(registry, offer)
        (root / "catalog.jsonl").unlink()
        publish(registry, offer)
    assert told(root / "catalog.jsonl") == {"lab/words@1.0.0": None}


def test_rebuilding_leaves_a_line_a_version_and_forgets_what_is_gone(tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "hub"
    some(root, Publisher(tmp_path))
    shutil.rmtree(root / "packages/lab/sums/0.1.0")
    assert rebuild(root) == 2
    assert len(lines(root / "catalog.jsonl")) == 2
    assert not (root / "packages/lab/sums/versions.jsonl").exists()
    with open_registry(root) as registry:
        assert len(registry.versions(PackageName("lab", "words"))) == 2


def test_a_registry_of_a_format_to_come_is_left_alone(tmp_path: Path) -> None:
    open_layout(tmp_path)
    for text in ('{"format": 2}', "[]", "no JSON"):
        (tmp_path / "registry.json").write_text(text)
        with pytest.raises(ConfigError, match="upgrade"):
            open_layout(tmp_path)


KILLED = """
import os, sys
from pathlib import Path
from rollouthub_registry.names import Release
from rollouthub_registry.server.registry import open_registry

number = int(sys.argv[4])
def cut(descriptor, line, write=os.write):
    global number
    number -= 1
    if number < 0:
        write(descriptor, line[:9])
        os.kill(os.getpid(), 9)
    return write(descriptor, line)

with open_registry(Path(sys.argv[1])) as registry:
    os.write = cut
    registry.publish(Path(sys.argv[2]), Path(sys.argv[3]).read_bytes())
    registry.yank(Release.parse("lab/words@1.0.0"), "wrong")
"""


@pytest.mark.parametrize("number", range(4))
def test_a_process_killed_in_the_middle_of_a_line_leaves_nothing_wrong(tmp_path: Path, number: int) -> None:
    offer, root = Publisher(tmp_path).offer("lab/words"), tmp_path / "hub"
    (tmp_path / "envelope").write_bytes(offer.envelope)
    given = map(str, (root, offer.bundle.path, tmp_path / "envelope", number))
    done = subprocess.run([sys.executable, "-c", KILLED, *given], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    with open_registry(root):
        pass
    expected = {"lab/words@1.0.0": "wrong" if number > 1 else None}
    assert told(root / "catalog.jsonl") == told(root / "packages/lab/words/versions.jsonl") == expected
