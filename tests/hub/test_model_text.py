"""Every parser of what a model or an agent writes is linear: none takes long over a megabyte of what it looks for.

Whoever adds a parser adds it to `PARSERS`; a new pattern in a file that is on neither list fails here.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rollouthub import Message, Submission, ToolRequest
from rollouthub.authoring.rewards import Criterion
from rollouthub.authoring.rewards.judge_verdict import read_verdict
from rollouthub.authoring.rewards.process_reward_model import steps_of
from rollouthub.authoring.submitted_picture import submitted_picture
from rollouthub.authoring.users import Cue, ScriptedUser, Stage, UserScript
from rollouthub.engine.tool_arguments import arguments_of
from rollouthub.errors import HubError
from rollouthub.gateway.model_api.dialects import PATHS, dialect_of
from rollouthub.generation import ModelRequest
from rollouthub.http.server_events import EventReader
from rollouthub.messages import assistant
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chunks import parse_chunk
from rollouthub.models.direct.completion import parse_answer
from rollouthub.models.direct.http_refusal import refusal
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.litellm.failure import unsupported
from rollouthub.models.mock.behaviours import expression
from rollouthub.models.openai.optional_fields import refused_option
from rollouthub.models.openai.responses_api import ResponsesApi
from rollouthub.models.quota import parse_quota
from rollouthub.models.retry import TryFailed
from rollouthub.models.tokens.tool_text import TOOL_PARSERS, hermes, llama3_json, qwen3_xml
from rollouthub.text import one_line
from rollouthub.trainers.policy_answer import without_end_marks
from rollouthub.trainers.reward_server.reward_routes import response_of
from rollouthub_agents.react import parse_action
from rollouthub_servers.arithmetic.answer import find_integer
from rollouthub_servers.arithmetic.calculator import calculate
from rollouthub_servers.code.answer import find_program
from rollouthub_servers.customer_service import user_requests as desk_requests
from rollouthub_servers.customer_service.case import CLOSING
from rollouthub_servers.customer_service.stated_amount import amounts_in
from rollouthub_servers.drawing.drawn_answer import grid_of
from rollouthub_servers.math.answer import MAX_ANSWER, find_answer, last_boxed
from rollouthub_servers.math.normal_form import normal, plain, words
from rollouthub_servers.reasoning_gym import find_answer as find_tagged
from rollouthub_servers.swe.agent_changes import crossing
from rollouthub_servers.swe.junit_report import passed_tests, sympy_passed
from rollouthub_servers.terminal.git_programs import are_plain
from rollouthub_servers.terminal.tests_folder import refused_hosts
from rollouthub_servers.terminal.tests_output import shown
from rollouthub_servers.visual.answers import find_answer as find_shown
from tests.loop_holds import SECONDS
from tests.yardstick import least_seconds

LENGTH = 1_000_000
AT_ONCE = 16_384
ROOT = Path(__file__).parents[2]

Parser = Callable[[str], object]

RESPONSES = ResponsesApi(ModelConfig(name="openai/x"), Endpoint("x", "http://127.0.0.1:1/v1", "KEY"), None)
ASKED = ModelRequest(())


def judged(text: str) -> object:
    return read_verdict(text, [Criterion(name="right", question="?")])


async def asked(text: str) -> object:
    patterns = (desk_requests.CONFIRM, desk_requests.REFUSED)
    cues = tuple(Cue(when=when, says=("Yes.",), in_requests=True) for when in patterns)
    script = UserScript(stages=(Stage(says="Hello.", cues=cues),), closing=CLOSING, fallback="What?", patience=9)
    return await ScriptedUser(script).reply([assistant(text)])


def heard(text: str) -> object:
    """Drive the scripted user, which awaits nothing."""
    try:
        asked(text).send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


def spoken(path: str) -> Parser:
    dialect = dialect_of(path)
    assert dialect is not None
    return lambda text: dialect.read(text.encode(), scope=b"")


CROWDED = ("1,", "[],", "{},", '"",', '{"a":1},', "[[[],[]]],", '"\\\\",')
TOOL_MARKS = ("<tool_call>", "<tool_call><function=a>", "<tool_call><function=a><parameter=a>", "<function=", "{")
PARSERS: dict[str, tuple[Parser, tuple[str, ...]]] = {
    "math.find_answer": (
        find_answer,
        (r"\boxed{", r"\boxed{1}", r"\boxed{1} ", "####", "answer ", "$", r"\(", "<think>"),
    ),
    "math.last_boxed": (last_boxed, (r"\boxed{1}", r"\boxed", r"\boxed{1}x")),
    # The worker's: what it is given is cut to this length before.
    "math.normal": (lambda text: normal(text[:MAX_ANSWER]), (r"\overline{", "1.", "1 ", r"\text{", "_{", "~")),
    "math.words": (lambda text: words(text[:MAX_ANSWER]), ("a ", "a' ", r"\text{a}")),
    "math.plain": (lambda text: plain(text[:MAX_ANSWER]), ("{a}", r"\left")),
    "arithmetic.find_integer": (find_integer, (r"\boxed{", "1,", "1{,}", "-", "1")),
    "arithmetic.calculate": (calculate, ("(", "1+", "9", "1,000")),
    "visual.find_answer, times": (lambda text: find_shown(text, "time", ()), ("1:00", "1:", "12", ":")),
    "visual.find_answer, words": (lambda text: find_shown(text, "word", ("red", "A")), ("red ", "A", "a", "red")),
    "drawing.grid_of": (
        lambda text: grid_of(Submission(answer=text)),
        ("<svg", "</svg>", "<svg></svg>", "data:image/png;base64,", "A"),
    ),
    "drawing.grid_of, paths": (
        lambda text: grid_of(Submission(answer=f"<svg><path d='M0 0 {text[:AT_ONCE]}'/></svg>")),
        ("1", "1.", "-", "L1 1", "+1e", "M0 0", "Z"),
    ),
    "drawing.grid_of, transforms": (
        lambda text: grid_of(Submission(answer=f"<svg><g transform='{text[:AT_ONCE]}'/></svg>")),
        ("a", "scale(1)", "scale(", "1,"),
    ),
    "reasoning_gym.find_answer": (
        lambda text: find_tagged(Submission(answer=text)),
        ("<answer>", "</answer>", "<answer></answer>", "</think>"),
    ),
    # In the sandbox, not on the loop.
    "code.find_program": (
        lambda text: find_program("def f():\n", text[:100_000], "f"),
        ("```", "```\n", "~~~\n", "def f"),
    ),
    "customer_service.amounts_in": (amounts_in, ("$1", "1,", "$ ", "1.1")),
    "users.ScriptedUser": (heard, ("please ", "which ", "item ", "?", "a.", "refund", "what ")),
    "react.parse_action": (
        lambda text: parse_action(text, 1),
        ("Action:", "\nAction: a", "Action: a ", "\nAction: a\nAction Input: [", "\n Final Answer:"),
    ),
    "rewards.read_verdict": (judged, ("<think>", "</think>", "```json\n", "{", '{"right":', "[")),
    "engine.arguments_of": (
        lambda text: arguments_of(ToolRequest(id="1", name="a", arguments=f'{{"a": [{text}1]}}')),
        ("{", "[", '{"a":', *CROWDED),
    ),
    "training.without_end_marks": (without_end_marks, ("<|a|>", "<", "<|", "</s>")),
    "rewarding.response_of": (lambda text: response_of(f"{text}ab", "ab"), ("<a>", "<", "< ", "a")),
    "models.parse_answer, calls": (
        lambda text: parse_answer(f'{{"choices":[{{"message":{{"tool_calls":[{text}1]}}}}]}}'.encode()),
        (*CROWDED, '{"function":{}},', '{"function":{"arguments":{"a":[0,0]}}},'),
    ),
    "models.parse_chunk, calls": (
        lambda text: parse_chunk(f'{{"choices":[{{"delta":{{"tool_calls":[{text}1]}}}}]}}'.encode()),
        (*CROWDED, '{"index":0},', '{"index":0,"function":{"arguments":{"a":[0,0]}}},'),
    ),
    "models.parse_answer": (lambda text: parse_answer(text.encode()), ("{", "[", '{"choices":[')),
    "models.parse_chunk": (lambda text: parse_chunk(text.encode()), ("{", "[", '{"choices":[')),
    "models.openai.parse": (
        lambda text: RESPONSES.parse(text.encode(), ASKED, None, 0),
        ("{", "[", '{"output":[', '{"output":[{"type":"message","content":[{"text":"'),
    ),
    "models.openai.refused_option": (
        lambda text: refused_option(TryFailed(text, status=400), {"include": ["x"], "response_format": {}}),
        ("structured ", "json_", "text.", "encrypt "),
    ),
    "models.refusal": (
        lambda text: refusal(400, {}, text.encode(), "KEY", sent_key=True),
        ("exceeds the ", "maximum ", "maximum context ", "{", '{"error":', '{"error":{"message":"'),
    ),
    "models.unsupported": (
        lambda text: unsupported(ValueError(text)),
        ("Error", "Error: ", "To drop ", "does not support parameters: [", "a"),
    ),
    "models.parse_quota": (
        lambda text: parse_quota({"x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": text[:AT_ONCE]}),
        ("1", "1.", "1m", "1ms"),
    ),
    "models.Credentials.redact": (
        lambda text: Credentials({"A_KEY": "aaaaaaaaab", "B_KEY": "sk-00000000"}).redact(text[: 2**19]),
        ("a", "sk-", "key-", "sk-aaaaaaaa", "Bearer ", "Bearer aaaaaaaaa "),
    ),
    "models.mock.expression": (expression, ("1", "1 ", "1.5", "1+", "(", ")")),
    "text.one_line": (one_line, ("\u0301", "a\u0301", "\x1b[", "\u202e")),
    "rewards.steps_of": (lambda text: list(steps_of(text, r"\n\s*\n", 512)), ("\n\n", "a\n\n", "\n ", "a\n")),
    "authoring.submitted_picture": (
        lambda text: submitted_picture(Submission(answer=text)),
        ("data:", "data:image/png;base64,", "data:image/png;base64,A ", "A", "![x]("),
    ),
    "terminal.refused_hosts": (
        refused_hosts,
        (
            "Could not resolve ",
            "Could not resolve host: ",
            "dial tcp: lookup ",
            "getaddrinfo ENOTFOUND ",
            "/dev/tcp/a.",
        ),
    ),
    "terminal.are_plain": (
        lambda text: are_plain(text[: 2**18].encode()),
        ("[a", '[a "', '[a "\\', "[core]\n", "a", "a = b\n", "\\\n"),
    ),
    "terminal.shown": (
        lambda text: shown(text, "/tmp/a"),
        ("1 a", "1 a in 1", "= ", "Ran 1 ", "1 a in 1s\n", "/tmp/a"),
    ),
    "swe.passed_tests": (
        lambda text: passed_tests(text[:AT_ONCE].encode()),
        ("<", "<a>", "<testcase/>", '<testcase name="', "&amp;", "\\x00"),
    ),
    "swe.sympy_passed": (sympy_passed, ("a ", "[", "ok\n", "test_add_and_mul ok\n")),
    "swe.crossing": (
        lambda text: crossing([f"/r/{text[:4096]}"], "/r", (), ()),
        ("/test_", "test_", "tests/", "_test.", "conftest.py"),
    ),
    # A stream is read so much at a time, and others have their turn in between.
    "models.EventReader": (
        lambda text: EventReader().feed(text[:AT_ONCE].encode()),
        ("data:", "data: a\n", ":", "\r\n"),
    ),
    **{
        f"tool_text.{name}": (lambda text, parse=parse: parse(text, ()), TOOL_MARKS)
        for name, parse in TOOL_PARSERS.items()
    },
    "tool_text.hermes, arguments": (
        lambda text: hermes(f'<tool_call>{{"name":"a","arguments":[{text}1]}}</tool_call>', ()),
        CROWDED,
    ),
    "tool_text.llama3_json, arguments": (
        lambda text: llama3_json(f'{{"name":"a","parameters":[{text}1]}}', ()),
        CROWDED,
    ),
    "tool_text.qwen3_xml, arguments": (
        lambda text: qwen3_xml(f"<tool_call><function=a><parameter=b>[{text}1]</parameter></function></tool_call>", ()),
        CROWDED,
    ),
    **{
        f"model_api.{path}, messages": (
            lambda text, path=path: spoken(path)(f'{{"messages":[{text}1],"input":[{text}1],"max_tokens":9}}'),
            CROWDED,
        )
        for path in PATHS
    },
    **{f"model_api.{path}": (spoken(path), ("{", "[", '{"messages":[', '{"messages":[{"content":"')) for path in PATHS},
}
FOLDERS = (
    "agents/rollouthub_agents",
    *(
        f"hub/rollouthub/{name}"
        for name in ("authoring", "engine", "export", "gateway", "hosting", "models", "trainers", "text.py", "tools.py")
    ),
    "mcp_servers/rollouthub_servers",
)
_AUTHORS = "an author's, or a published task's"
_OTHERS = "in a process of the foreign environment, which is given up at its deadline"
_OURS = "a setting, or a name that the hub made"
WITH_PATTERNS = {
    "agents/rollouthub_agents/external/templates.py": _AUTHORS,
    "agents/rollouthub_agents/external/variables.py": _AUTHORS,
    "agents/rollouthub_agents/react.py": "react.parse_action",
    "hub/rollouthub/authoring/decoded_picture.py": "a picture's bytes, in a worker process",
    "hub/rollouthub/authoring/rewards/judge.py": _AUTHORS,
    "hub/rollouthub/authoring/rewards/process_reward_model.py": "rewards.steps_of",
    "hub/rollouthub/authoring/rows/hugging_face.py": _AUTHORS,
    "hub/rollouthub/authoring/rows/row_files.py": _AUTHORS,
    "hub/rollouthub/authoring/rows/row_source.py": _AUTHORS,
    "hub/rollouthub/authoring/sandbox_state.py": "a path of a sandbox",
    "hub/rollouthub/authoring/submitted_picture.py": "authoring.submitted_picture",
    "hub/rollouthub/authoring/users/scripted_user.py": "users.ScriptedUser",
    "hub/rollouthub/engine/repeated_refusals.py": _OURS,
    "hub/rollouthub/gateway/sessions/practice.py": _OURS,
    "hub/rollouthub/hosting/launch.py": _OURS,
    "hub/rollouthub/hosting/server/stdio_bridge.py": _OURS,
    "hub/rollouthub/models/credentials.py": "models.Credentials.redact",
    "hub/rollouthub/models/direct/chat_wire.py": "a media type, matched from its beginning",
    "hub/rollouthub/models/direct/http_refusal.py": "models.refusal",
    "hub/rollouthub/models/litellm/failure.py": "models.unsupported",
    "hub/rollouthub/models/media_tokens.py": _OURS,
    "hub/rollouthub/models/mock/behaviours.py": "models.mock.expression",
    "hub/rollouthub/models/mock/pieces.py": "what a mock model says",
    "hub/rollouthub/models/openai/optional_fields.py": "models.openai.refused_option",
    "hub/rollouthub/models/openai/batch_queue.py": _OURS,
    "hub/rollouthub/models/openai/batch_server.py": "a server's id, matched from its beginning",
    "hub/rollouthub/models/prices.py": _OURS,
    "hub/rollouthub/models/quota.py": "models.parse_quota",
    "hub/rollouthub/models/tokens/tool_text.py": "tool_text.*",
    "hub/rollouthub/text.py": "text.one_line",
    "hub/rollouthub/tools.py": _AUTHORS,
    "hub/rollouthub/trainers/dance_grpo/picture_rewards.py": _AUTHORS,
    "hub/rollouthub/trainers/policy_answer.py": "trainers.policy_answer.without_end_marks",
    "hub/rollouthub/trainers/reward_server/plain_look.py": "a prompt, in a thread",
    "hub/rollouthub/trainers/reward_server/reward_routes.py": "rewarding.response_of",
    "hub/rollouthub/trainers/trl/tool_methods.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/agent_world_model/openapi_tools.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/agent_world_model/scenario_files.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/arithmetic/answer.py": "arithmetic.find_integer",
    "mcp_servers/rollouthub_servers/arithmetic/calculator.py": "arithmetic.calculate",
    "mcp_servers/rollouthub_servers/bfcl/shown_tools.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/code/answer.py": "code.find_program, in the sandbox",
    "mcp_servers/rollouthub_servers/customer_service/__init__.py": "the scripted user's own words",
    "mcp_servers/rollouthub_servers/customer_service/stated_amount.py": "customer_service.amounts_in",
    "mcp_servers/rollouthub_servers/drawing/svg_paint.py": "a colour, of at most 64 characters",
    "mcp_servers/rollouthub_servers/drawing/svg_path.py": "drawing.grid_of, paths",
    "mcp_servers/rollouthub_servers/drawing/svg_transform.py": "drawing.grid_of, transforms",
    "mcp_servers/rollouthub_servers/foreign/forked_serving.py": _OTHERS,
    "mcp_servers/rollouthub_servers/foreign/local_datasets.py": _OTHERS,
    "mcp_servers/rollouthub_servers/foreign/package.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/foreign_app/app_folder.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/inspect/task_source.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/inspect/task_world.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/math/answer.py": "math.find_answer, math.last_boxed",
    "mcp_servers/rollouthub_servers/math/judge.py": "the end of an answer, at most 60 characters, in the worker",
    "mcp_servers/rollouthub_servers/math/normal_form.py": "math.normal, math.words, math.plain",
    "mcp_servers/rollouthub_servers/mcp_server/launch.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/mcp_server/mcp_import/imported_server.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/mcp_server/tool_list.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/miniwob/miniwob_driver.py": _OTHERS,
    "mcp_servers/rollouthub_servers/miniwob/page_server.py": _OTHERS,
    "mcp_servers/rollouthub_servers/nemo_gym/driver.py": _OTHERS,
    "mcp_servers/rollouthub_servers/nemo_gym/gym_rows.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/nemo_gym/server_folder.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/openenv/importer.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/openenv/shown_fields.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/reasoning_gym/guard.py": "an expression, in the worker",
    "mcp_servers/rollouthub_servers/step_api/gymnasium_world.py": _OTHERS,
    "mcp_servers/rollouthub_servers/swe/agent_changes.py": "swe.crossing",
    "mcp_servers/rollouthub_servers/swe/junit_report.py": "swe.passed_tests, swe.sympy_passed",
    "mcp_servers/rollouthub_servers/swe/published_data_sets.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/swe/row_formats.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/swe/swe_row.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/entry_points.py": "a name of a folder in a task's image",
    "mcp_servers/rollouthub_servers/terminal/git_programs.py": "terminal.are_plain",
    "mcp_servers/rollouthub_servers/terminal/harbor/compose_values.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/harbor/git_commit.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/harbor/settings.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/harbor/task.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/harbor/templates.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/image_look.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/planted_files.py": "the beginning of a line",
    "mcp_servers/rollouthub_servers/terminal/program_settings.py": "a name of a file",
    "mcp_servers/rollouthub_servers/terminal/program_variables.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/terminal/tests_folder.py": "terminal.refused_hosts",
    "mcp_servers/rollouthub_servers/terminal/tests_output.py": "terminal.shown",
    "mcp_servers/rollouthub_servers/verifiers/env_source.py": _AUTHORS,
    "mcp_servers/rollouthub_servers/visual/answers.py": "visual.find_answer",
}
"""File → the parser that stands for it, or why there is none."""


CASES = [(name, mark) for name, (_, marks) in PARSERS.items() for mark in (" ", "\n", *marks)]


@pytest.mark.parametrize(("name", "mark"), CASES, ids=[f"{name}-{mark!r}" for name, mark in CASES])
def test_a_parser_takes_no_time_over_a_megabyte(name: str, mark: str) -> None:
    parse = PARSERS[name][0]
    repeated = mark * (LENGTH // len(mark))
    for text in (repeated, f"x{repeated}x", rf"\boxed{{1}}{repeated}x\boxed{{2}}"):

        def read(text: str = text) -> None:
            with suppress(HubError, ValueError, BadAnswer):  # refusing it is an answer, too
                parse(text)

        assert least_seconds(read, SECONDS) < SECONDS


def test_parsers_read_what_they_are_for() -> None:
    call = '<tool_call>{"name": "a", "arguments": {"b": 1}}</tool_call>'
    xml = "<tool_call>\n<function=a>"
    xml += "\n<parameter=b>\n1\n</parameter>\n<parameter=c>x<parameter=d>\ny \n</function>\n</tool_call>"
    (one,) = TOOL_PARSERS["hermes"](f"so {call}", ()).requests
    assert (one.name, one.arguments) == ("a", '{"b": 1}')
    (one,) = TOOL_PARSERS["qwen3_xml"](xml, ()).requests
    assert (one.name, one.arguments) == ("a", '{"b": 1, "c": "x", "d": "y "}')
    two = TOOL_PARSERS["llama3_json"](
        ' {"name": "a", "parameters": {}} ; \n{"name": "b", "parameters": {}} ', ()
    ).requests
    assert [each.name for each in two] == ["a", "b"]
    assert find_tagged(Submission(answer="<answer>1</answer> no, <answer> 2 </answer> done")) == "2"
    assert find_tagged(Submission(transcript=(Message(role="assistant", content="<answer>open"),))) is None
    assert find_answer(f"\\boxed{{1}}{' ' * 60_000}x\\boxed{{2}}") == "2"
    assert find_answer("\\boxed{1} and \\boxed{2}") == "1, 2"
    action = parse_action('Thought: so\n  Action: add\nAction Input: {"a": 1} tail', 3)
    assert action is not None
    assert (action.name, action.arguments) == ("add", '{"a": 1}')
    assert parse_action("Final Answer: 4\nAction: add", 3) is None


def test_each_file_with_a_pattern_that_meets_model_text_is_on_a_list() -> None:
    found = {
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in ((ROOT / folder).rglob("*.py") if (ROOT / folder).is_dir() else [ROOT / folder])
        if re.search(r"\bre\.(?:compile|search|match|findall|finditer|sub|split|fullmatch)\(", file.read_text())
    }
    assert found == set(WITH_PATTERNS), "add the parser to PARSERS, then its file here"


@pytest.mark.parametrize(
    ("inside", "is_read"),
    [
        ('"' + '[{,\\"' * 200_000 + '"', True),
        (f'"{"x" * 100_000}", ' + "1," * 49_990 + "1", True),
        ("1," * 50_010 + "1", False),
        (r'"\\",' * 50_010 + "1", False),
    ],
    ids=["a long text", "many values", "too many values", "too many texts"],
)
def test_arguments_may_be_long_but_not_crowded(inside: str, is_read: bool) -> None:
    arguments, problem = arguments_of(ToolRequest(id="1", name="a", arguments=f'{{"a": [{inside}]}}'))
    assert (problem is None, isinstance(arguments, dict)) == (is_read, is_read)
