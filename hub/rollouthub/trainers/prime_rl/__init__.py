"""prime-rl: training rows as the samples that its trainer packs, with the hub in its orchestrator's place. Begin with
`training_samples.py`.
"""

from rollouthub.trainers.prime_rl.training_samples import samples_of

__all__ = ["samples_of"]
