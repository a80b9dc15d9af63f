"""What the hub offers DanceGRPO."""


class DanceGrpoAdapter:
    """DanceGRPO: see its page."""

    system = "DanceGRPO"
    packages = {}
    tested_with = ""
    entries = (
        "rollouthub.trainers.dance_grpo.image_rewards",
        "rollouthub.trainers.dance_grpo.image_advantages",
        "rollouthub.trainers.dance_grpo.write_captions",
    )
    page = "docs/trainers/dancegrpo.md"
