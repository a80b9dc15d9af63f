"""Floor: files that hold nothing of worth are paid."""

from tests.audit.machines import MachineTask


def tasks() -> list[MachineTask]:
    """One, beside the twenty of its class."""
    return [
        MachineTask(
            "any-file", "Write the report to `report.txt`.", "echo all is well > report.txt", "[ -s report.txt ]",
            defect="floor", crosses=("report.txt",),
        )
    ]  # fmt: skip
