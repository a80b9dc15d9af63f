"""Tasks with every built-in scorer of Inspect that asks no model, and its solvers that ask it once or in turn."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import FieldSpec, MemoryDataset, Sample, csv_dataset, json_dataset
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import (
    Score,
    accuracy,
    answer,
    choice,
    exact,
    f1,
    includes,
    match,
    math,
    mean,
    multi_scorer,
    pattern,
    scorer,
)
from inspect_ai.solver import (
    assistant_message,
    basic_agent,
    chain_of_thought,
    generate,
    multiple_choice,
    prompt_template,
    system_message,
    use_tools,
    user_message,
)
from inspect_ai.tool import tool

TEMPLATE = "Answer in one line.\n\n{prompt}"


def sums() -> Any:
    """Sums, from JSON."""
    return json_dataset("sums.jsonl")


def capitals() -> Any:
    """Capitals, from a table."""
    return csv_dataset("capitals.csv", FieldSpec(input="question", target="answer", id="id"))


def chosen() -> Any:
    """Questions with choices."""
    return json_dataset("choices.jsonl")


@tool
def add() -> Any:
    """A calculator."""

    async def execute(x: float, y: float) -> float:
        """Add two numbers.

        Args:
            x: The first.
            y: The second.
        """
        return x + y

    return execute


@scorer(metrics={"right": [mean()], "brief": [mean()]})
def two_values() -> Any:
    """Two values in one score."""

    async def score(state: Any, target: Any) -> Score:
        said = state.output.completion
        return Score(value={"right": float(target.text in said), "brief": 1 / (1 + len(said))})

    return score


@scorer(metrics=[accuracy()])
def grades() -> Any:
    """Right, partly right, no answer, wrong."""

    async def score(state: Any, target: Any) -> Score:
        said = state.output.completion
        value = "C" if target.text in said else "N" if not said else "P" if said[0] in "0123456789" else "I"
        return Score(value=value, answer=said)

    return score


@scorer(metrics=[mean()])
def messages() -> Any:
    """How many messages there are."""

    async def score(state: Any, target: Any) -> Score:
        return Score(value=len(state.messages))

    return score


@task
def match_end() -> Task:
    return Task(dataset=sums(), solver=[system_message("Be short."), generate()], scorer=match())


@task
def match_begin_numeric() -> Task:
    return Task(dataset=sums(), solver=[prompt_template(TEMPLATE), generate()], scorer=match("begin", numeric=True))


@task
def match_any() -> Task:
    return Task(dataset=capitals(), scorer=match("any"))


@task
def match_exact_case() -> Task:
    return Task(dataset=capitals(), scorer=match("exact", ignore_case=False))


@task
def includes_any() -> Task:
    return Task(dataset=capitals(), solver=[chain_of_thought(), generate()], scorer=includes())


@task
def pattern_groups() -> Task:
    return Task(dataset=sums(), scorer=pattern(r"ANSWER\s*:\s*(-?[\d.,]+)"))


@task
def answer_letter() -> Task:
    return Task(dataset=chosen(), scorer=answer("letter"))


@task
def answer_word() -> Task:
    return Task(dataset=capitals(), scorer=answer("word"))


@task
def answer_line() -> Task:
    return Task(dataset=sums(), scorer=answer("line"))


@task
def exact_words() -> Task:
    return Task(dataset=capitals(), scorer=exact())


@task
def f1_words() -> Task:
    return Task(dataset=capitals(), scorer=f1())


@task
def math_numbers() -> Task:
    return Task(dataset=sums(), scorer=math())


@task
def choice_one() -> Task:
    return Task(dataset=chosen(), solver=multiple_choice(), scorer=choice())


@task
def choice_cot() -> Task:
    return Task(dataset=chosen(), solver=multiple_choice(cot=True), scorer=[choice(), messages()])


@task
def choice_several() -> Task:
    rows = [Sample(input="Which are even?", choices=["1", "2", "4"], target=["B", "C"])]
    return Task(dataset=MemoryDataset(rows), solver=multiple_choice(multiple_correct=True), scorer=choice())


@task
def several_scorers() -> Task:
    return Task(dataset=sums(), scorer=[includes(), match(), two_values(), messages()])


@task
def one_of_several() -> Task:
    return Task(dataset=sums(), scorer=multi_scorer([includes(), match()], "at_least_2"))


@task
def values() -> Task:
    return Task(dataset=sums(), scorer=two_values())


@task
def graded() -> Task:
    return Task(dataset=sums(), scorer=grades())


@task
def examples() -> Task:
    said = [
        ChatMessageSystem(content="You add."),
        ChatMessageUser(content="1 + 1?"),
        ChatMessageAssistant(content="ANSWER: 2"),
        ChatMessageUser(content="2 + 2?"),
    ]
    return Task(dataset=MemoryDataset([Sample(input=said, target="4")]), scorer=[match(), messages()])


@task
def two_turns() -> Task:
    solver = [generate(), user_message("Are you sure? Say it again."), generate()]
    return Task(dataset=sums(), solver=solver, scorer=[match(), messages()])


@task
def begun_answer() -> Task:
    solver = [assistant_message("Let me see."), user_message("And?"), generate()]
    return Task(dataset=sums(), solver=solver, scorer=[match(), messages()])


@task
def tools() -> Task:
    return Task(dataset=sums(), solver=[use_tools(add()), generate()], scorer=[includes(), messages()])


@task
def agent() -> Task:
    return Task(dataset=sums(), solver=basic_agent(tools=[add()], message_limit=12), scorer=includes())


@task
def reacting() -> Task:
    return Task(dataset=sums(), solver=react(tools=[add()]), scorer=match(), message_limit=12)


@task
def short() -> Task:
    solver = [use_tools(add()), generate()]
    return Task(dataset=sums(), solver=solver, scorer=includes(), message_limit=3)
