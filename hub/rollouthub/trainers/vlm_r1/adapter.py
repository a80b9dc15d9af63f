"""What the hub offers VLM-R1."""


class VlmR1Adapter:
    """VLM-R1: see its page."""

    system = "VLM-R1"
    packages = {}
    tested_with = ""
    entries = ("rollouthub.trainers.vlm_r1.hub_reward",)
    page = "docs/trainers/vlm-r1.md"
