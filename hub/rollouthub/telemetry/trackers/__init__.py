"""Curves of a run where people look at curves: TensorBoard, W&B, MLflow, and a trainer's own read back beside them."""
