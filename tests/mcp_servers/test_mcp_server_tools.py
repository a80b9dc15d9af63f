"""Pinning a foreign server's tools: which names are offered, what is refused, how a change is told."""

from typing import Any

import pytest
from mcp_types import CallToolResult, Icon, ImageContent, TextContent, Tool

from rollouthub.errors import ConfigError, TaskError, ToolError
from rollouthub.plugins.manifest import ServerSection
from rollouthub_servers.mcp_server.results import bounded
from rollouthub_servers.mcp_server.tool_list import pin

SERVER = ServerSection(command=("server",))


def tool(name: str, **schema: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object", **schema})


def test_names_models_cannot_say_are_mapped() -> None:
    pinned = pin([tool("fs.read/file"), tool("x" * 100)], SERVER, "")
    assert list(pinned.offered) == ["fs_read_file", "x" * 64]
    assert pinned.offered["fs_read_file"].server_name == "fs.read/file"


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([tool("a.b"), tool("a_b")], "'a.b' and 'a_b' would both be offered as 'a_b'"),
        ([tool("a"), tool("a")], "two tools of one name"),
        ([tool("submit")], r'hub\'s own; hide it with server.hidden_tools = \["submit"\]'),
        ([tool("reply")], "a tool of the hub's own"),
        ([tool("get.task")], "a tool of the hub's own"),
        ([tool("")], "without a name"),
        ([tool("a", properties={"x": {"type": "nonsense"}})], "an input schema that does not hold"),
        ([Tool(name="a", description="x" * 200_000, input_schema={"type": "object"})], "more than 100,000 bytes"),
        ([tool(f"t{number}") for number in range(600)], "lists 600 tools"),
    ],
)
def test_a_list_that_cannot_be_offered_is_refused(tools: list[Tool], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        pin(tools, SERVER, "")


def test_a_hidden_tool_may_have_any_name() -> None:
    hiding = ServerSection(command=("server",), hidden_tools=("submit",))
    assert list(pin([tool("submit"), tool("a")], hiding, "").offered) == ["a"]


def test_a_difference_names_what_was_added_removed_and_changed() -> None:
    pinned = pin([tool("a"), tool("b"), tool("c")], SERVER, "")
    assert pinned.difference([tool("c"), tool("b"), tool("a")], "") is None
    later = [tool("a", required=["x"]), tool("c"), tool("d")]
    assert pinned.difference(later, "") == "added 'd'; removed 'b'; changed 'a'"


def test_what_no_model_sees_may_change() -> None:
    pinned = pin([tool("a")], SERVER, "")
    dressed = tool("a").model_copy(update={"meta": {"x": 1}, "icons": [Icon(src="data:,")], "title": "A"})
    assert pinned.difference([dressed], "") is None
    assert pin([dressed], SERVER, "").offered["a"].definition == tool("a")


def test_an_episodes_own_path_makes_no_difference() -> None:
    def listing(folder: str) -> list[Tool]:
        return [Tool(name="a", description=f"Works in {folder}.", input_schema={"type": "object"})]

    pinned = pin(listing("/tmp/one"), SERVER, "/tmp/one")
    assert pinned.difference(listing("/tmp/two"), "/tmp/two") is None
    assert pinned.offered["a"].definition.description == "Works in {workdir}."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n": 1}, None),
        ({"n": "1"}, "argument 'n': '1' is not of type 'integer'"),
        ({}, "'n' is a required property"),
        ({"n": 1, "m": 2}, r"Additional properties are not allowed \('m' was unexpected\)"),
        ({"n": 1, "deep": [{"k": 0}]}, "argument 'deep.0.k': 0 is not of type 'string'"),
    ],
)
def test_arguments_are_checked_by_the_tools_own_schema(arguments: dict[str, Any], said: str | None) -> None:
    deep = {"type": "array", "items": {"properties": {"k": {"type": "string"}}}}
    properties = {"n": {"type": "integer"}, "deep": deep}
    pinned = pin([tool("a", properties=properties, required=["n"], additionalProperties=False)], SERVER, "").offered[
        "a"
    ]
    if said is None:
        pinned.check(arguments)
    else:
        with pytest.raises(ToolError, match=said):
            pinned.check(arguments)


def test_a_reference_to_somewhere_else_is_not_fetched() -> None:
    pinned = pin([tool("a", properties={"x": {"$ref": "http://127.0.0.1:9/schema"}})], SERVER, "").offered["a"]
    with pytest.raises(TaskError, match="does not hold"):
        pinned.check({"x": 1})


def test_pictures_that_fit_are_kept_and_others_cut() -> None:
    small, large = (
        ImageContent(data="aGk=", mime_type="image/png"),
        ImageContent(data="A" * 5000, mime_type="image/png"),
    )
    result = bounded(CallToolResult(content=[small, large, TextContent(text="é" * 2000)]), 1000)
    assert result.content[0] == small
    assert [block.type for block in result.content] == ["image", "text", "text"]
    assert len(result.model_dump_json()) < 1500
