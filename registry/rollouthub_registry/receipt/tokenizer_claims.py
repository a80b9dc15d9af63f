"""Compares token ids with a tokenizer: of another model they are out of its vocabulary, or say other words."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from rollouthub.errors import ConfigError
from rollouthub.models.mock.byte_tokens import END, LOGPROBS, VOCABULARY, spoken
from rollouthub.rollout import BROKEN_OFF, Rollout, Turn
from rollouthub.store import AttemptSummary
from rollouthub.text import plain_name
from rollouthub.values import Float32s
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import attempt_name, turn_model
from rollouthub_registry.receipt.model_files import TOKENIZER

_MOCK = "mock/"
_IGNORED = re.compile(r"[\s\ufffd]+")
_MOST_CHARACTERS = 200_000
"""Most characters of one response that are compared."""


class Vocabulary(Protocol):
    """A tokenizer, as far as ids are compared with it."""

    size: int

    def text(self, ids: list[int]) -> str:
        """The text that ids stand for, special tokens left out."""
        ...


class FileVocabulary:
    """The tokenizer of a `tokenizer.json`."""

    def __init__(self, file: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: it is none, or the package that reads it is missing.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigError("comparing token ids with a tokenizer takes its reader: pip install tokenizers") from None
        try:
            made: Any = Tokenizer.from_file(str(file))  # pyright: ignore[reportUnknownMemberType]  # it has no types
        except Exception as error:  # the reader raises plain exceptions
            raise ConfigError(f"{plain_name(str(file))} is no tokenizer: {error}") from error
        self.size = 1 + max(made.get_vocab(with_added_tokens=True).values(), default=-1)  # ids may have gaps
        self._decode: Callable[..., str] = made.decode

    def text(self, ids: list[int]) -> str:
        """The text that ids stand for."""
        return self._decode(ids, skip_special_tokens=True)


class TokenizerCheck:
    """Compares the ids of one model's answers with its tokenizer."""

    def __init__(self, model: str, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._problems = Problems()
        self._answers = self._rollouts = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        turns = [turn for turn in rollout.turns if turn_model(rollout, turn) == self._model]
        with_ids = [turn for turn in turns if turn.output_token_ids is not None]
        self._rollouts += bool(with_ids)
        for turn in with_ids:
            self._answers += 1
            problem = self._problem(turn)
            if problem is not None:
                self._problems.add(f"{attempt_name(rollout)}, turn {turn.index}: {problem}")

    def _problem(self, turn: Turn) -> str | None:
        for array in (turn.prompt_token_ids, turn.output_token_ids):
            if array is not None and len(array) and not 0 <= min(array) <= max(array) < self._vocabulary.size:
                return f"token {max(array):,} is none of the tokenizer's {self._vocabulary.size:,}"
        if turn.finish_reason == BROKEN_OFF or turn.output_token_ids is None:
            return None
        said = self._vocabulary.text(turn.output_token_ids.tolist())
        for name, text in (("text", turn.response.text), ("reasoning", turn.response.reasoning or "")):
            if not _is_within(text[:_MOST_CHARACTERS], said):
                return f"its ids say {said[:60]!r}, and its {name} {text[:60]!r}"
        return None

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        model = plain_name(self._model)
        if self._problems:
            said = f"the token ids of {counted(self._problems.count, 'answer')} are not of the tokenizer of {model}"
            yield self._problems.refutes("tokenizer", said, self._rollouts)
        elif self._answers:
            said = f"the ids of {counted(self._answers, 'answer')} say what was answered, by the tokenizer of {model}"
            yield Claim("tokenizer", "consistent", said, self._rollouts)


class MockCheck:
    """Compares the ids and log-probabilities of mock models with what those give: bytes, and a fixed value of each."""

    def __init__(self) -> None:
        self._problems = Problems()
        self._answers = self._rollouts = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        turns = [turn for turn in rollout.turns if (turn_model(rollout, turn) or "").startswith(_MOCK)]
        with_ids = [turn for turn in turns if turn.output_token_ids is not None]
        self._rollouts += bool(with_ids)
        for turn in with_ids:
            self._answers += 1
            problem = _mock_problem(turn)
            if problem is not None:
                self._problems.add(f"{attempt_name(rollout)}, turn {turn.index}: {problem}")

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._problems:
            said = (
                f"the tokens of {counted(self._problems.count, 'answer')} are not those of the mock model that is named"
            )
            yield self._problems.refutes("tokenizer", said, self._rollouts)
        elif self._answers:
            said = (
                f"the ids and log-probabilities of {counted(self._answers, 'answer')} are the mock model's own: bytes, "
                "and a fixed value of each"
            )
            yield Claim("tokenizer", "consistent", said, self._rollouts)


def _mock_problem(turn: Turn) -> str | None:
    assert turn.output_token_ids is not None
    ids = turn.output_token_ids.tolist()
    if ids and not 0 <= min(ids) <= max(ids) < VOCABULARY:
        return f"token {max(ids):,} is none of the mock's {VOCABULARY}"
    logprobs = turn.output_logprobs
    if logprobs is not None and logprobs != Float32s([LOGPROBS[token] for token in ids]):
        return "its log-probabilities are not those that the mock gives these tokens"
    words = bytes(token for token in ids if token < 256)
    answer = spoken(turn.response).encode()
    is_whole = bool(ids) and ids[-1] == END
    is_equal = words == answer if is_whole else answer.startswith(words) or words.startswith(answer)
    if not is_equal:
        return f"its ids say {words[:60]!r}, and its answer is {answer[:60]!r}"
    return None


def _is_within(text: str, said: str) -> bool:
    """Whether the characters of a text come in a response in this order; what a server cut out lies between them."""
    left = iter(_IGNORED.sub("", said))
    return all(letter in left for letter in _IGNORED.sub("", text))


def vocabulary_of(folder: Path) -> Vocabulary:
    """The tokenizer of a model's folder.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    return FileVocabulary(folder / TOKENIZER)
