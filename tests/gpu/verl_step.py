"""veRL."""
from tests.gpu.lab import Lab
async def measure(lab: Lab) -> None:
    """."""
