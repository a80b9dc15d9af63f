"""A library of the shape of HUD v6, as small as its driver needs it; for tests."""
