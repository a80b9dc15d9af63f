"""What a machine trusts: the keys of each namespace, and the releases it has seen."""

from pydantic import Field

from rollouthub.frozen import Frozen
from rollouthub_registry.bundle.attestation import Digest
from rollouthub_registry.names import Release, Version
from rollouthub_registry.trust.trust_error import KeyChanged, Replayed


class Pins(Frozen):
    """All of a trust store."""

    schema_version: int = Field(default=1, ge=1, le=1)
    namespaces: dict[str, tuple[str, ...]] = {}
    """Namespace → the ids of the keys that may sign for it."""
    seen: dict[str, dict[str, Digest]] = {}
    """`namespace/name` → version → the digest of its bundle, of everything that was ever admitted."""

    def check_key(self, namespace: str, key_id: str) -> None:
        """See that a key may sign for a namespace; any may, as long as none is pinned.

        Raises:
            KeyChanged: others are pinned.
        """
        pinned = self.namespaces.get(namespace)
        if pinned is not None and key_id not in pinned:
            raise KeyChanged(namespace, pinned, key_id)

    def check_version(self, release: Release, digest: str, *, is_exact: bool) -> None:
        """See that a release is not an old one under a new pretext.

        Raises:
            Replayed: its version was seen with other bytes; or, unless it was asked for exactly, a newer one was seen.
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
        """The highest version of the release's package that was seen."""
        return max(map(Version.parse, self.seen.get(str(release.package), {})), default=None)

    def with_release(self, release: Release, digest: str, key_id: str) -> "Pins":
        """These and one more, which was verified; its key is pinned where the namespace had none."""
        package, namespace = str(release.package), release.package.namespace
        seen = {**self.seen.get(package, {}), str(release.version): digest}
        return Pins(
            namespaces={namespace: (key_id,), **self.namespaces},
            seen={**self.seen, package: seen},
        )

    def with_keys(self, namespace: str, key_ids: tuple[str, ...]) -> "Pins":
        """These, with just these keys for a namespace; none forgets it, and the next install pins anew."""
        others = {name: keys for name, keys in self.namespaces.items() if name != namespace}
        return Pins(namespaces={**others, namespace: key_ids} if key_ids else others, seen=self.seen)
