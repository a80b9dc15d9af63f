"""Curves of a run in experiment trackers: TensorBoard, W&B and MLflow; and a trainer's own curves, read back to
compare.
"""
