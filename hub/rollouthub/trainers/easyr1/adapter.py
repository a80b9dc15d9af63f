"""The adapter for EasyR1: its name, packages, entries and documentation page."""


class EasyR1Adapter:
    """The adapter for EasyR1; `page` documents its use."""

    system = "EasyR1"
    packages = {}
    tested_with = "b44b311"
    entries = ("rollouthub.trainers.easyr1.compute_score",)
    page = "docs/trainers/easyr1.md"
