"""The adapter for DanceGRPO: its name, packages, entries and documentation page."""


class DanceGrpoAdapter:
    """The adapter for DanceGRPO; `page` documents its use."""

    system = "DanceGRPO"
    packages = {}
    tested_with = ""
    entries = (
        "rollouthub.trainers.dance_grpo.image_rewards",
        "rollouthub.trainers.dance_grpo.image_advantages",
        "rollouthub.trainers.dance_grpo.write_captions",
    )
    page = "docs/trainers/dancegrpo.md"
