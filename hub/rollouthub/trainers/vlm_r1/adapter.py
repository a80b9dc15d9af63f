"""The adapter for VLM-R1: its name, packages, entries and documentation page."""


class VlmR1Adapter:
    """The adapter for VLM-R1; `page` documents its use."""

    system = "VLM-R1"
    packages = {}
    tested_with = ""
    entries = ("rollouthub.trainers.vlm_r1.hub_reward",)
    page = "docs/trainers/vlm-r1.md"
