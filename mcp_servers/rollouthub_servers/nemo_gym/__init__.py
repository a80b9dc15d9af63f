"""`NemoGym`: resources servers of NeMo Gym, played unchanged; `hub import nemo_gym` makes environments of them."""

from rollouthub_servers.nemo_gym.nemo_environment import NemoGym, NemoGymConfig
from rollouthub_servers.nemo_gym.nemo_steps import NemoGymSteps

__all__ = ["NemoGym", "NemoGymConfig", "NemoGymSteps"]
