"""An image that is there, and what of it was not as it was asked for."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that is present on the engine."""

    reference: str
    """What to create containers from."""
    digest: str
    """The engine's id of it, `sha256:…`: the same bytes, wherever the name points later."""
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    """Bases (or the image itself) that another image stood in for, by the mapping table: asked for → used."""
    user: str = ""
    """The image's own, empty for root."""
    workdir: str = ""
    """The image's own, empty where it has none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a rollout should say of it."""
        return tuple(f"the image {used} stands in for {asked}" for asked, used in self.replaced.items())
