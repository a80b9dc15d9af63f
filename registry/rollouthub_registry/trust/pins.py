"""The trusted keys of each namespace, and the releases that this machine has seen."""

from collections.abc import Mapping

from pydantic import Field

from rollouthub.values import Frozen
from rollouthub_registry.bundle.attestation import Digest
from rollouthub_registry.names import Release, Version
from rollouthub_registry.trust.trust_error import KeyChanged, Replayed


class Pins(Frozen):
    """The content of a trust store."""

    schema_version: int = Field(default=1, ge=1, le=1)
    namespaces: dict[str, tuple[str, ...]] = {}
    """Namespace → ids of the keys that may sign for it."""
    seen: dict[str, dict[str, Digest]] = {}
    """`namespace/name` → version → digest of its bundle, for every release ever admitted."""
    unwalled: dict[str, dict[str, Digest]] = {}
    """`namespace/name` → version → digest of its bundle, for releases whose servers need no wall."""

    def check_key(self, namespace: str, key_id: str) -> None:
        """Check that a key may sign for a namespace; any key may while none is pinned.

        Raises:
            KeyChanged: other keys are pinned.
        """
        pinned = self.namespaces.get(namespace)
        if pinned is not None and key_id not in pinned:
            raise KeyChanged(namespace, pinned, key_id)

    def check_version(self, release: Release, digest: str, *, is_exact: bool) -> None:
        """Check that a release has the bytes seen before, and that no newer version was seen.

        Raises:
            Replayed: its version was seen with other bytes; or, unless `is_exact`, a newer version was seen.
        """
        seen = self.seen.get(str(release.package), {})
        known = seen.get(str(release.version))
        if known is not None and known != digest:
            raise Replayed(
                f"{release} was {known} when it was first installed, and is {digest} now; a version never changes: "
                "do not install it, and tell its owner"
            )
        highest = self.highest(release)
        if not is_exact and highest is not None and release.version < highest:
            raise Replayed(
                f"{release} is offered, but {highest} was there before: an old version may be replayed; to have it "
                f"nevertheless, ask for it exactly: {release}"
            )

    def highest(self, release: Release) -> Version | None:
        """The highest version of the release's package that was seen; None if none was."""
        return max(map(Version.parse, self.seen.get(str(release.package), {})), default=None)

    def with_release(self, release: Release, digest: str, key_id: str) -> "Pins":
        """A copy with one more verified release; its key is pinned if the namespace had none."""
        package, namespace = str(release.package), release.package.namespace
        seen = {**self.seen.get(package, {}), str(release.version): digest}
        namespaces = {namespace: (key_id,), **self.namespaces}
        return self.model_copy(update={"namespaces": namespaces, "seen": {**self.seen, package: seen}})

    def with_keys(self, namespace: str, key_ids: tuple[str, ...]) -> "Pins":
        """A copy with exactly these keys for a namespace; with no keys, the next install pins one."""
        others = {name: keys for name, keys in self.namespaces.items() if name != namespace}
        return self.model_copy(update={"namespaces": {**others, namespace: key_ids} if key_ids else others})

    def with_unwalled(self, package: str, versions: Mapping[str, str]) -> "Pins":
        """A copy with exactly these versions of a package, by digest, as those that need no wall."""
        others = {name: digests for name, digests in self.unwalled.items() if name != package}
        return self.model_copy(update={"unwalled": {**others, package: dict(versions)} if versions else others})

    def needs_no_wall(self, package: str, version: str, digest: str | None) -> bool:
        """Whether the user said that just these bytes need no wall."""
        return digest is not None and self.unwalled.get(package, {}).get(version) == digest
