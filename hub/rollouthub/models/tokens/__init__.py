"""Models over engines that take and give token ids: what was sampled is kept as it was, and never encoded again."""

from rollouthub.models.tokens.chat import ChatFormat, ShowingChatFormat
from rollouthub.models.tokens.engine import Sampled, TokenEngine
from rollouthub.models.tokens.hf_chat import HfChatFormat
from rollouthub.models.tokens.model import TokenModel

__all__ = ["ChatFormat", "HfChatFormat", "Sampled", "ShowingChatFormat", "TokenEngine", "TokenModel"]
