"""The adapter for ROLL: its name, packages, entries and documentation page."""


class RollAdapter:
    """The adapter for ROLL; `page` documents its use."""

    system = "ROLL"
    packages = {"roll": None, "gem": "gem-llm"}
    tested_with = "8eb27cc2"
    entries = (
        "rollouthub.trainers.roll.HubAgentRunner",
        "rollouthub.trainers.roll.HubEnvManager",
        "rollouthub.trainers.roll.HubGemEnv",
        "rollouthub.trainers.roll.HubGroupFilter",
        "rollouthub.trainers.roll.HubSpreadFilter",
    )
    page = "docs/trainers/roll.md"
