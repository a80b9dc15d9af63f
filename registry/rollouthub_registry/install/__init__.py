"""Installing bundles: each version in a virtual environment of its own, which appears whole or not at all."""
