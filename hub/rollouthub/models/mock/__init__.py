"""Mock models and their server: models that answer at once and deterministically."""

from rollouthub.plugins.moved import names_of

__getattr__ = names_of("rollouthub.models.mock", "rollouthub.models.mock.mock_model")
