"""Audits of environments that ship: sound ones are found sound, and soon."""

from collections.abc import Iterable, Sequence

import anyio
import pytest

from rollouthub import Environment, Message, Public, Score, Secret, Submission, Task, ToolRequest, tool
from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.messages import assistant
from rollouthub_registry.audit.answer_forms import core_of, made_wrong
from rollouthub_servers.debate import Debate, DebateConfig
from rollouthub_servers.drawing import Drawing, DrawingConfig
from rollouthub_servers.visual import Visual, VisualConfig
from tests.audit.made_tasks import TEXT, MadeTask, MadeTool, State, environment_of
from tests.audit.measuring import audited

SOON = 60


@pytest.mark.parametrize(
    ("environment", "config"),
    [
        (Visual, VisualConfig(size=40)),  # letters, times, words and numbers, each in a sentence
        (Drawing, DrawingConfig(size=6)),
        (Debate, DebateConfig(size=3, judge="quotes")),
    ],
)
async def test_what_is_sound_is_found_sound_before_a_call_times_out(
    environment: AnyEnvironment, config: EnvironmentConfig
) -> None:
    with anyio.fail_after(SOON):
        audits = await audited(environment, config=config)
    assert [(each.task, each.verdict, each.fault) for each in audits if each.verdict != "sound"] == []


@pytest.mark.parametrize(
    ("answer", "core"),
    [
        ("The answer is 18.", "18"),
        ("Final answer: B", "B"),
        ("So far so good.\nThe answer is 3:05.", "3:05"),
        ("<answer>red</answer>", "red"),
        (r"It is \boxed{7}", "7"),
        (r"It is \boxed{\frac{1}{x^{2}}}, not \boxed{", r"It is \boxed{\frac{1}{x^{2}}}, not \boxed{"),
        (r"It is \boxed{\frac{1}{x^{2}}}.", r"\frac{1}{x^{2}}"),
        ("what the answer is not", "what the answer is not"),
    ],
)
def test_an_answer_is_read_out_of_its_frame(answer: str, core: str) -> None:
    assert core_of(answer) == core


def test_a_changed_number_keeps_its_frame_and_its_digits() -> None:
    assert ("off by one", "The answer is 19.") in made_wrong("The answer is 18.")
    assert [text for _, text in made_wrong("The answer is 3:05.")] == ["The answer is 3:06."]


def _tagged(prompt: str) -> MadeTask:
    """A task whose verifier reads what stands in a tag."""

    def judge(said: str, _: State) -> bool:
        return said.partition("<answer>")[2].partition("</answer>")[0] == "dunlin-60417"

    return MadeTask("tagged", prompt, "<answer>dunlin-60417</answer>", judge)


@pytest.mark.parametrize(
    ("prompt", "found"),
    [("Which bird?", {"prompt"}), ("Which bird? Put it between <answer> and </answer>.", set[str]())],
)
async def test_a_mark_that_the_verifier_wants_must_be_in_the_prompt(prompt: str, found: set[str]) -> None:
    (audit,) = await audited(environment_of("Tagged", [_tagged(prompt)]))
    assert {finding.defect for finding in audit.defects} == found


@pytest.mark.parametrize(("minds_order", "remarks"), [(False, []), (True, [("same-steps", "remark")])])
async def test_steps_in_another_order_that_lead_to_the_same_are_right_too(
    minds_order: bool, remarks: list[tuple[str, str]]
) -> None:
    orders: dict[int, list[str]] = {}

    def put(state: State, place: str) -> str:
        order = orders[id(state)] = orders[id(state)] if state else []
        order.append(place)
        state[place] = True
        return "done"

    def judge(_: str, state: State) -> float:
        return float(len(state) == 2 and (not minds_order or orders[id(state)] == ["dish", "bowl"]))

    tools = {"put": MadeTool(put, arguments={"place": TEXT})}
    steps = [("put", {"place": place}) for place in ("dish", "bowl")]
    made = MadeTask("order", "Fill the dish and the bowl.", None, judge, steps=steps, tools=tools)
    (audit,) = await audited(environment_of("Order", [made]))
    assert [(each.probe, each.severity) for each in audit.findings] == remarks


class Locked(Environment[EnvironmentConfig]):
    """A door; asking for the reference puts the key in, as Harbor's `[solution]` sets variables for its script."""

    key = opened = ""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="door", prompt="Unlock the door."), Secret())

    @tool
    async def unlock(self) -> str:
        """Turn the key, if there is one."""
        self.opened = self.key
        return "turned"

    def reference(self) -> Sequence[Message]:
        self.key = "brass"
        return [assistant("", ToolRequest(id="1", name="unlock", arguments="{}")), assistant("Done.")]

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.opened == "brass"), passed=self.opened == "brass")


async def test_a_reference_may_set_up_its_own_episode() -> None:
    (found,) = await audited(Locked)
    states = {result.probe: result.state for result in found.results}
    assert (states["oracle"], states["wrong-steps"], states["null"]) == ("held", "held", "held")
