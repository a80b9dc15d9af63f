"""Models over engines that take and return token ids: sampled ids are reused unchanged, and never encoded again."""

from rollouthub.models.tokens.chat_format import ChatFormat, ShowingChatFormat
from rollouthub.models.tokens.hf_chat import HfChatFormat
from rollouthub.models.tokens.sglang_engine import open_sglang_engine
from rollouthub.models.tokens.token_engine import Sampled, TokenEngine
from rollouthub.models.tokens.token_model import TokenModel

__all__ = [
    "ChatFormat",
    "HfChatFormat",
    "Sampled",
    "ShowingChatFormat",
    "TokenEngine",
    "TokenModel",
    "open_sglang_engine",
]
