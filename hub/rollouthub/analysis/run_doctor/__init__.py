"""Diagnoses a run's problems and their causes: `hub doctor RUN`."""
