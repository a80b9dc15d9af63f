"""What the hub offers ROLL."""


class RollAdapter:
    """ROLL: see its page."""

    system = "ROLL"
    packages = {"roll": None, "gem": "gem-llm"}
    tested_with = "8eb27cc2"
    entries = (
        "rollouthub.trainers.roll.HubAgentRunner",
        "rollouthub.trainers.roll.HubGemEnv",
        "rollouthub.trainers.roll.HubGroupFilter",
        "rollouthub.trainers.roll.HubSpreadFilter",
    )
    page = "docs/trainers/roll.md"
