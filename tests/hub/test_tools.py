"""A method's signature becomes a strict MCP tool, and what it returns an MCP result."""

import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from hypothesis import given
from mcp_types import AudioContent, CallToolResult, ImageContent, TextContent, Tool
from pydantic import BaseModel, Field

from rollouthub import ToolError, tool
from rollouthub.tools import MOST_LEVELS, ToolSpec, as_result, checked_tool, tool_specs
from tests.hosting.local.postponed import Point, Postponed, Size
from tests.strategies import json_values

SPECS = {spec.definition.name: spec for spec in tool_specs(Postponed)}
PICTURE = ImageContent(data="aGk=", mime_type="image/png")


def parse(name: str, **arguments: Any) -> dict[str, Any]:
    return SPECS[name].parse(arguments)


def refusal(name: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as error:
        SPECS[name].parse(arguments)
    return str(error.value)


# --- arguments ----------------------------------------------------------------------------------------------------


def test_arguments_of_the_right_types_are_taken_as_they_are() -> None:
    given = {"count": 3, "ratio": 0.5, "label": "x", "is_on": True}
    assert parse("scalars", **given) == given


def test_a_float_may_be_given_as_an_integer() -> None:
    assert parse("scalars", count=3, ratio=2, label="x", is_on=True)["ratio"] == 2.0


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("count", "5"),
        ("count", 5.0),
        ("count", 5.5),
        ("count", True),
        ("count", None),
        ("ratio", "0.5"),
        ("ratio", True),
        ("ratio", math.nan),
        ("ratio", math.inf),
        ("label", 5),
        ("label", ["x"]),
        ("is_on", "true"),
        ("is_on", 1),
        ("is_on", 0.0),
    ],
)
def test_no_argument_is_coerced(argument: str, value: object) -> None:
    told = refusal("scalars", **{"count": 3, "ratio": 0.5, "label": "x", "is_on": True, argument: value})
    assert told.startswith(f"argument '{argument}':")


def test_an_unknown_argument_is_named_with_those_there_are() -> None:
    told = refusal("bounded", age=3, weight=4)
    assert told == "unknown argument 'weight'; bounded takes: age"


def test_missing_arguments_are_all_named() -> None:
    told = refusal("scalars", label="x", is_on=False)
    assert told == "argument 'count' is missing\nargument 'ratio' is missing"


def test_a_choice_is_one_of_its_values() -> None:
    assert parse("choices", side="left", size="large") == {"side": "left", "size": Size.LARGE}
    assert "'left' or 'right'" in refusal("choices", side="up", size="large")
    assert "'small' or 'large'" in refusal("choices", side="left", size="LARGE")


def test_a_nested_model_is_built_and_as_strict() -> None:
    assert parse("nested", at={"x": 1}, path=[{"x": 2, "y": 3}]) == {"at": Point(x=1), "path": [Point(x=2, y=3)]}
    assert refusal("nested", at={"x": "1"}).startswith("argument 'at.x':")
    assert refusal("nested", at={"x": 1}, path=[{"y": 3}]) == "argument 'path.0.x' is missing"
    assert refusal("nested", at={"x": 1, "z": 2}).startswith("unknown argument 'at.z'")
    assert SPECS["nested"].definition.input_schema["$defs"]["Point"]["additionalProperties"] is False


def test_only_what_was_given_is_passed_on() -> None:
    assert parse("optional") == {}
    assert parse("optional", limit=None, tags=["a"]) == {"limit": None, "tags": ["a"]}


def test_a_list_is_strict_in_its_members() -> None:
    assert "'tags.1'" in refusal("optional", tags=["a", 2])
    assert "'tags'" in refusal("optional", tags="a")


def test_bounds_written_in_the_type_hold() -> None:
    assert parse("bounded", age=150) == {"age": 150}
    assert "less than or equal to 150" in refusal("bounded", age=151)


def test_types_json_lacks_are_read_from_their_json_form() -> None:
    parsed = parse("shapes", pair=[1, 2], when="2024-02-29", names={"a": 1}, anything=[None])
    assert parsed == {"pair": (1, 2), "when": date(2024, 2, 29), "names": {"a": 1.0}, "anything": [None]}
    assert "'when'" in refusal("shapes", pair=[1, 2], when="2023-02-29", names={})


def test_an_argument_may_bear_any_name() -> None:
    given = {"schema": "s", "json": 1, "copy": True, "model_config": "m"}
    assert parse("clashing", **given) == given


@pytest.mark.parametrize("hostile", ["\ud800", [[]]], ids=["lone surrogate", "endless nesting"])
def test_arguments_that_are_no_json_are_the_models_mistake(hostile: Any) -> None:
    for _ in range(2000 if isinstance(hostile, list) else 0):
        hostile = [hostile]
    assert "not JSON" in refusal("shapes", pair=[1, 2], when="2024-02-29", names={}, anything=hostile)


@given(json_values)
def test_any_argument_is_taken_or_refused_with_words(value: Any) -> None:
    for spec in SPECS.values():
        for argument in spec.definition.input_schema["properties"]:
            try:
                spec.parse({argument: value})
            except ToolError as error:
                assert str(error)


# --- definitions --------------------------------------------------------------------------------------------------


def test_the_schema_says_what_is_accepted() -> None:
    assert SPECS["scalars"].definition.input_schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "description": "How many, all told."},
            "ratio": {"type": "number", "description": "Of what to what."},
            "label": {"type": "string"},
            "is_on": {"type": "boolean"},
        },
        "required": ["count", "ratio", "label", "is_on"],
        "additionalProperties": False,
    }


def test_the_description_is_the_docstring_without_its_arguments() -> None:
    assert SPECS["scalars"].definition.description == "Take one of each."


def test_a_description_and_a_default_written_in_the_type_are_kept() -> None:
    age = SPECS["bounded"].definition.input_schema["properties"]["age"]
    assert age == {"type": "integer", "minimum": 0, "maximum": 150, "default": 40, "description": "In years."}


def test_tools_are_in_order_of_definition_base_classes_first() -> None:
    class More(Postponed):
        @tool
        async def extra(self) -> None: ...

        @tool
        async def bounded(self, age: int = 0) -> str:
            return str(age)

    names = [spec.definition.name for spec in tool_specs(More)]
    assert names == [*SPECS, "extra"]
    (bounded,) = (spec for spec in tool_specs(More) if spec.definition.name == "bounded")
    assert bounded.definition.input_schema["properties"]["age"]["default"] == 0


def test_an_override_without_the_decorator_withdraws_the_tool() -> None:
    class Less(Postponed):
        async def bounded(self, age: int = 40) -> str:
            return ""

    assert "bounded" not in [spec.definition.name for spec in tool_specs(Less)]


def test_a_tool_may_have_another_name_than_its_method() -> None:
    class Named:
        @tool(name="look-up")
        async def look_up(self, word: str) -> str:
            return word

    (spec,) = tool_specs(Named)
    assert (spec.definition.name, spec.method) == ("look-up", "look_up")


def generator() -> type:
    class Bad:
        @tool
        async def work(self) -> AsyncIterator[str]:
            yield ""

    return Bad


def badly_named() -> type:
    class Bad:
        @tool(name="not a name")
        async def work(self) -> str:
            return ""

    return Bad


def untyped() -> type:
    class Bad:
        @tool  # pyright: ignore[reportUnknownArgumentType]  # what is refused at run time
        async def work(self, word) -> str:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
            return str(word)  # pyright: ignore[reportUnknownArgumentType]

    return Bad


def variadic() -> type:
    class Bad:
        @tool
        async def work(self, *words: str) -> str:
            return " ".join(words)

    return Bad


def twice() -> type:
    class Bad:
        @tool
        async def work(self) -> str:
            return ""

        @tool(name="work")
        async def also(self) -> str:
            return ""

    return Bad


def field_as_default() -> type:
    class Bad:
        @tool
        async def work(self, count: int = Field(3, ge=1)) -> str:
            return str(count)

    return Bad


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (generator, "must return its result; it yields"),
        (badly_named, "'not a name' is not 1 to 64"),
        (untyped, "'word' needs a name and a type"),
        (variadic, "'words' needs a name and a type"),
        (twice, "two tools of one name"),
        (field_as_default, r"Annotated\[type, Field"),
    ],
)
def test_a_method_that_makes_no_tool_is_refused_at_once(make: Callable[[], type], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        tool_specs(make())


# --- results ------------------------------------------------------------------------------------------------------


class Pair(BaseModel):
    """A structured result."""

    left: int
    right: date


@dataclass
class Box:
    """A structured result of plain Python."""

    width: int


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def test_text_is_returned_as_it_is() -> None:
    assert text_of(as_result("plain")) == "plain"


def test_text_of_undecodable_bytes_becomes_writable() -> None:
    text = text_of(as_result("caf\udce9 é"))
    assert text == "caf? é"


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}', {"a": [1, None]}),
        (Pair(left=1, right=date(2024, 2, 29)), '{"left":1,"right":"2024-02-29"}', {"left": 1, "right": "2024-02-29"}),
        (Box(width=2), '{"width":2}', {"width": 2}),
        ({"nested": Box(width=2)}, '{"nested":{"width":2}}', {"nested": {"width": 2}}),
        ({"x": math.nan}, '{"x":"NaN"}', {"x": "NaN"}),
        ([1, 2], "[1,2]", None),
        (7, "7", None),
        (True, "true", None),
    ],
)
def test_other_values_are_json_and_objects_structured_as_well(value: object, text: str, structured: object) -> None:
    result = as_result(value)
    assert (text_of(result), result.structured_content) == (text, structured)


def test_a_result_shares_nothing_with_the_world_it_tells_of() -> None:
    board = {"cells": ["x"]}
    result = as_result(board)
    board["cells"].append("o")
    assert result.structured_content == {"cells": ["x"]}


def test_nothing_is_an_empty_result() -> None:
    assert as_result(None).content == []


def test_content_blocks_pass_through() -> None:
    caption = TextContent(text="a cat")
    assert as_result(PICTURE).content == [PICTURE]
    assert as_result([caption, PICTURE]).content == [caption, PICTURE]
    sound = AudioContent(data="aGk=", mime_type="audio/wav")
    assert as_result((sound,)).content == [sound]


def test_a_ready_result_passes_through() -> None:
    ready = CallToolResult(content=[PICTURE], is_error=True)
    assert as_result(ready) is ready


def test_a_value_no_json_can_say_is_an_error() -> None:
    with pytest.raises(ValueError, match="serialize"):
        as_result({"socket": object()})


def test_specs_are_values() -> None:
    assert all(isinstance(spec, ToolSpec) for spec in SPECS.values())
    assert tool_specs(Postponed)[0].definition == SPECS["scalars"].definition


# --- long arguments -----------------------------------------------------------------------------------------------


class Letterbox:
    @tool
    async def post(self, text: str, short: Annotated[str, Field(max_length=10)] = "") -> str:
        return text


def test_long_text_comes_through_as_it_is_and_is_checked_all_the_same() -> None:
    (spec,) = tool_specs(Letterbox)
    long = 'é"\n' * 100_000
    assert spec.parse({"text": long}) == {"text": long}
    assert spec.parse({"text": long, "short": "a"}) == {"text": long, "short": "a"}
    with pytest.raises(ToolError, match="are not JSON"):
        spec.parse({"text": long + "\ud800"})
    with pytest.raises(ToolError, match="'short'"):
        spec.parse({"text": long, "short": long})
    with pytest.raises(ToolError, match="unknown argument 'more'"):
        spec.parse({"text": long, "more": long})


def test_a_forwarded_call_that_is_nested_too_deep_is_the_agents_error() -> None:
    spec = checked_tool(Tool(name="show", input_schema={"type": "object"}))
    deep: Any = "x"
    for _ in range(MOST_LEVELS - 1):
        deep = [deep]
    assert spec.parse({"deep": deep}) == {"deep": deep}
    with pytest.raises(ToolError, match="nested too deeply: more than 100 levels"):
        spec.parse({"deep": [{"deep": deep}]})
