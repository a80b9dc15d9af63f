"""The categories of BFCL v4: their files, which are played here, and why others are refused."""

from dataclasses import dataclass

PREFIX = "BFCL_v4_"
ANSWERS = "possible_answer"
SINGLE_TURN = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
MEMORY = ("memory_kv", "memory_rec_sum")
PLAYED = (*SINGLE_TURN, *MULTI_TURN, *MEMORY)
_NETWORK = "its function search_engine_query asks a search engine on the network"


@dataclass(frozen=True)
class RefusedCategory:
    """A category that is listed with a reason why it cannot be played."""

    category: str
    file: str
    reason: str


REFUSED = (
    RefusedCategory(
        "memory_vector", "memory", "MemoryAPI_vector fetches an encoder (all-MiniLM-L6-v2) from the network"
    ),
    RefusedCategory("web_search_base", "web_search", _NETWORK),
    RefusedCategory("web_search_no_snippet", "web_search", _NETWORK),
)
FORMAT_SENSITIVITY = RefusedCategory(
    "format_sensitivity",
    "format_sensitivity",
    "it asks for calls in several forms of text, and calls are made through tools here",
)


def file_of(category: str) -> str:
    """Name of the file with a category's rows."""
    return f"{PREFIX}{'memory' if category.startswith('memory_') else category}.json"


def is_stateful(category: str) -> bool:
    """Whether the category's functions belong to simulated APIs with state."""
    return category in MULTI_TURN or category in MEMORY
