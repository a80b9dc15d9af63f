"""Models over engines that take and give token ids: what was sampled is kept as it was, and never encoded again."""

from envhub.models.tokens.chat import ChatFormat, ShowingChatFormat
from envhub.models.tokens.engine import Sampled, TokenEngine
from envhub.models.tokens.hf_chat import HfChatFormat
from envhub.models.tokens.model import TokenModel

__all__ = ["ChatFormat", "HfChatFormat", "Sampled", "ShowingChatFormat", "TokenEngine", "TokenModel"]
