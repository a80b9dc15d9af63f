"""A registry in a directory: what may be published, what stays, and what is left of a killed process."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.atomic_write import locked, open_layout
from rollouthub_registry.server.directory_layout import sort_key
from rollouthub_registry.server.owners import all_owners, assign
from rollouthub_registry.server.registry import Registry, open_registry, rebuild
from rollouthub_registry.server.search import Query
from rollouthub_registry.server.server_error import RegistryRequestRefused
from tests.registry.server.publishers import Offer, Publisher, statement_of


def publish(registry: Registry, offer: Offer) -> None:
    registry.publish(offer.bundle.path, offer.envelope)


def refusal(registry: Registry, offer: Offer) -> str:
    """Why an offer is refused; nothing of it may stay."""
    before = sorted(registry.layout.packages.rglob("*")), all_owners(registry.layout)
    with pytest.raises(RegistryRequestRefused) as refused:
        publish(registry, offer)
    assert (sorted(registry.layout.packages.rglob("*")), all_owners(registry.layout)) == before
    assert list(registry.layout.incoming.iterdir()) == []
    return str(refused.value)


def test_a_published_version_is_found_and_keeps_its_bytes(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        offer = publisher.offer("lab/words", "1.2.0", baselines=[("openai/small", 0.25, 8), ("openai/big", 0.75, 8)])
        listing = registry.publish(offer.bundle.path, offer.envelope)
        assert registry.layout.bundle(offer.release).read_bytes() == offer.bundle.path.read_bytes()
        assert registry.layout.statement(offer.release).read_bytes() == offer.envelope
        assert (listing.facts.digest, listing.facts.difficulty) == (offer.bundle.digest, 0.25)
        assert registry.latest(PackageName("lab", "words")) == listing
        assert all_owners(registry.layout)[0].owners == (publisher.key_id,)


def test_a_version_never_changes_and_the_same_offered_again_is_no_mistake(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        offer = publisher.offer("lab/words")
        publish(registry, offer)
        publish(registry, offer)
        assert "never changes" in refusal(registry, publisher.offer("lab/words", description="Another."))


def test_a_namespace_belongs_to_its_first_publisher(tmp_path: Path) -> None:
    with open_registry(tmp_path / "hub") as registry:
        publish(registry, Publisher(tmp_path).offer("lab/words"))
        assert "belongs to another key" in refusal(registry, Publisher(tmp_path).offer("lab/other"))


def test_a_namespace_belongs_to_whom_the_operator_gave_it(tmp_path: Path) -> None:
    owner, stranger = Publisher(tmp_path), Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        with locked(registry.layout):
            assign(registry.layout, "lab", (owner.key_id,))
        assert "belongs to another key" in refusal(registry, stranger.offer("lab/words"))
        publish(registry, owner.offer("lab/words"))


@pytest.mark.parametrize("squatted", ["1ab/words", "la-b/words", "lab/w-ords", "lab/w0rds"])
def test_a_name_that_could_be_taken_for_another_is_refused(tmp_path: Path, squatted: str) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        publish(registry, publisher.offer("lab/words"))
        assert "could be taken for" in refusal(registry, publisher.offer(squatted))


def test_a_statement_must_be_of_the_bundle_and_signed(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        bundle = publisher.offer("lab/words").bundle
        other = publisher.sign(statement_of(bundle, digest="sha256:" + "0" * 64))
        assert "another bundle" in refusal(registry, Offer(bundle, other))
        lied = {**bundle.manifest.model_dump(mode="json"), "description": "Something else."}
        assert "not what the bundle holds" in refusal(
            registry, Offer(bundle, publisher.sign(statement_of(bundle, manifest=lied)))
        )
        forged = json.loads(publisher.sign(statement_of(bundle)))
        forged["signatures"][0]["sig"] = json.loads(other)["signatures"][0]["sig"]
        assert "signature" in refusal(registry, Offer(bundle, json.dumps(forged).encode()))
        swapped = json.loads(publisher.sign(statement_of(bundle)))
        swapped["signatures"][0]["keyid"] = Publisher(tmp_path).key_id
        assert "key" in refusal(registry, Offer(bundle, json.dumps(swapped).encode()))
        assert "statement" in refusal(registry, Offer(bundle, b"{}"))


def test_a_tampered_archive_is_refused(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    content = bytearray(offer.bundle.path.read_bytes())
    content[700] ^= 1
    offer.bundle.path.write_bytes(content)
    with open_registry(tmp_path / "hub") as registry:
        assert refusal(registry, offer)


def test_a_yanked_version_is_marked_stays_and_is_the_latest_no_more(tmp_path: Path) -> None:
    publisher, package = Publisher(tmp_path), PackageName("lab", "words")
    with open_registry(tmp_path / "hub") as registry:
        for version in ("1.0.0", "1.1.0"):
            publish(registry, publisher.offer("lab/words", version))
        yanked = registry.yank(Release.parse("lab/words@1.1.0"), "wrong answers")
        assert (yanked.yanked, yanked.is_latest) == ("wrong answers", False)
        assert str(registry.latest(package).release.version) == "1.0.0"
        registry.yank(Release.parse("lab/words@1.0.0"), "also")
        assert str(registry.latest(package).release.version) == "1.1.0"
        assert registry.search(Query("words")).listings == []
        assert registry.layout.bundle(Release.parse("lab/words@1.1.0")).exists()


def test_the_latest_version_is_semvers(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        for version in ("1.10.0", "1.9.0", "1.10.0-rc.2", "1.10.0-rc.10"):
            publish(registry, publisher.offer("lab/words", version))
        assert str(registry.latest(PackageName("lab", "words")).release.version) == "1.10.0"


def test_sort_keys_sort_as_versions_do() -> None:
    order = [
        "1.0.0-1",
        "1.0.0-2.a",
        "1.0.0-10",
        "1.0.0-a",
        "1.0.0-a.1",
        "1.0.0-a-b",
        "1.0.0",
        "1.2.0",
        "1.10.0",
        "12.0.0",
    ]
    versions = [Release.parse(f"a/b@{text}").version for text in order]
    assert sorted(versions) == versions
    assert sorted(map(sort_key, versions)) == [sort_key(version) for version in versions]


def test_search_finds_words_and_puts_the_better_checked_first(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        publish(registry, publisher.offer("lab/alpha", description="Long sums of numbers", passed=False))
        publish(registry, publisher.offer("lab/beta", description="Long sums of numbers", baselines=[("m/x", 0.2, 4)]))
        publish(registry, publisher.offer("lab/gamma", description="Crosswords", tags=["puzzle"]))

        def names(query: Query) -> list[str]:
            return [each.release.package.name for each in registry.search(query).listings]

        assert names(Query("sum number")) == ["beta", "alpha"]
        assert names(Query("sums", passed_only=True)) == ["beta"]
        assert names(Query("puzz")) == names(Query(tag="puzzle")) == ["gamma"]
        assert names(Query(order="hardest")) == ["beta", "alpha", "gamma"]
        assert names(Query('" OR * NEAR(')) == []
        assert names(Query("lab", namespace="other")) == []


def test_an_index_is_made_anew_from_the_directory_and_downloads_stay_counted(tmp_path: Path) -> None:
    publisher, package = Publisher(tmp_path), PackageName("lab", "words")
    with open_registry(tmp_path / "hub") as registry:
        for version in ("1.0.0", "1.1.0"):
            publish(registry, publisher.offer("lab/words", version))
        registry.yank(Release.parse("lab/words@1.0.0"), "old")
        registry.index.count_download(package)
        before = registry.versions(package)
    assert rebuild(tmp_path / "hub") == 2
    with open_registry(tmp_path / "hub") as registry:
        assert registry.versions(package) == before
        assert before[0].downloads == 1


@pytest.mark.parametrize("damage", ["absent", "garbage"])
def test_a_lost_index_is_made_anew_at_once(tmp_path: Path, damage: str) -> None:
    with open_registry(tmp_path / "hub") as registry:
        publish(registry, Publisher(tmp_path).offer("lab/words"))
    for file in (tmp_path / "hub").glob("index.db*"):
        file.unlink()
    if damage == "garbage":
        (tmp_path / "hub" / "index.db").write_bytes(b"nothing of the kind" * 99)
    with open_registry(tmp_path / "hub") as registry:
        assert registry.search(Query("words")).total == 1


def test_one_damaged_version_does_not_take_the_others_down(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    with open_registry(tmp_path / "hub") as registry:
        for name in ("lab/words", "lab/sums"):
            publish(registry, publisher.offer(name))
        registry.layout.statement(Release.parse("lab/sums@1.0.0")).write_text("{")
    assert rebuild(tmp_path / "hub") == 1


def test_sixteen_publishers_at_once_lose_nothing(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    offers = [publisher.offer(f"lab/env-{number}") for number in range(16)]
    with open_registry(tmp_path / "hub") as registry, ThreadPoolExecutor(16) as threads:
        for done in [threads.submit(publish, registry, offer) for offer in offers]:
            done.result()
        assert registry.search(Query(limit=100)).total == 16
    with open_registry(tmp_path / "hub") as registry:
        assert registry.search(Query(limit=100)).total == 16


KILLED = """
import os, sys
from pathlib import Path
from rollouthub_registry.server.registry import open_registry

awaited, further = sys.argv[4], int(sys.argv[5])
has_come = False
def watch(event, _):
    global further, has_come
    has_come = has_come or event == awaited
    if has_come and event in ("os.mkdir", "os.rename", "os.utime", "open", "shutil.rmtree"):
        further -= 1
        if further < 0:
            os.kill(os.getpid(), 9)

with open_registry(Path(sys.argv[1])) as registry:
    sys.addaudithook(watch)
    registry.publish(Path(sys.argv[2]), Path(sys.argv[3]).read_bytes())
print("published")
"""


@pytest.mark.parametrize(
    ("event", "further", "is_published"),
    [
        ("os.mkdir", 0, False),
        ("os.mkdir", 3, False),
        ("os.rename", 0, False),
        ("os.utime", 0, False),
        ("os.utime", 1, False),
        ("os.utime", 2, True),
        ("shutil.rmtree", 0, True),
    ],
)
def test_a_publisher_killed_anywhere_leaves_a_whole_version_or_none(
    tmp_path: Path, event: str, further: int, is_published: bool
) -> None:
    offer, root = Publisher(tmp_path).offer("lab/words"), tmp_path / "hub"
    (tmp_path / "envelope").write_bytes(offer.envelope)
    given = (root, offer.bundle.path, tmp_path / "envelope", event, further)
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, given)], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    with open_registry(root) as registry:
        assert list(registry.layout.incoming.iterdir()) == []
        assert registry.layout.version(offer.release).exists() is is_published
        assert registry.search(Query("words")).total == is_published
        publish(registry, offer)
        assert registry.layout.bundle(offer.release).read_bytes() == offer.bundle.path.read_bytes()


def test_an_upload_in_progress_is_not_swept_away(tmp_path: Path) -> None:
    from rollouthub_registry.server.atomic_write import receiving, sweep

    layout = open_layout(tmp_path / "hub")
    with receiving(layout) as folder:
        assert sweep(layout) == 0
        assert folder.is_dir()
    (layout.incoming / "dead").mkdir()
    assert sweep(layout) == 1


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    from rollouthub.errors import ConfigError

    with pytest.raises(ConfigError, match="cannot be kept"), open_registry(tmp_path / "file" / "hub"):
        os.abort()
