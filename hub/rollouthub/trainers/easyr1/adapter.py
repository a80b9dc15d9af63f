"""What the hub offers EasyR1."""


class EasyR1Adapter:
    """EasyR1: see its page."""

    system = "EasyR1"
    packages = {}
    tested_with = "b44b311"
    entries = ("rollouthub.trainers.easyr1.compute_score",)
    page = "docs/trainers/easyr1.md"
