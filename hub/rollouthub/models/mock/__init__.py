"""Mock models and their server: models that answer at once and always the same."""

from rollouthub.moved import names_of

__getattr__ = names_of("rollouthub.models.mock", "rollouthub.models.mock.mock_model")
