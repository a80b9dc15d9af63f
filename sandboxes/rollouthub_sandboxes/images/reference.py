"""A reference to an image on the engine, and which images the mapping table replaced in it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that is present on the engine."""

    reference: str
    """The name to create containers from."""
    digest: str
    """The engine's id of the image, `sha256:…`, which stays the same when the name moves to another image."""
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    """Images replaced by the mapping table (bases, or the image itself): asked for → used."""
    user: str = ""
    """The user that the image sets; empty for root."""
    workdir: str = ""
    """The working directory that the image sets; empty if none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark for the rollout's record on each replaced image."""
        return tuple(f"the image {used} stands in for {asked}" for asked, used in self.replaced.items())
