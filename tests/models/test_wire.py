"""Our messages and tools as the OpenAI wire's, and back."""

from typing import Any

import msgspec
import pytest
from mcp_types import Tool

from rollouthub import Media, Message, ModelError, Text, ToolRequest
from rollouthub.messages import assistant, system, user
from rollouthub.models.direct.chat_wire import (
    ToolSchemas,
    WireMessage,
    WireTool,
    decode_tools,
    encode_tools,
    from_wire,
    to_wire,
)

PICTURE = Media(digest="sha256:" + "0" * 64, mime_type="image/png")


def as_json(message: Message, media: dict[str, bytes] | None = None, with_reasoning: bool = True) -> Any:
    return msgspec.json.decode(msgspec.json.encode(to_wire(message, media or {}, with_reasoning=with_reasoning)))


def back(message: Message) -> Message:
    encoded = msgspec.json.encode(to_wire(message, {}, with_reasoning=True))
    return from_wire(msgspec.json.decode(encoded, type=WireMessage), {})


@pytest.mark.parametrize(
    "message",
    [
        system("be brief"),
        user("hello"),
        user(""),
        Message(role="user", content=(Text(text="a"), Text(text="b"))),
        assistant("words"),
        assistant("", ToolRequest(id="1", name="add", arguments='{"a": ')),
        assistant("words too", ToolRequest(id="1", name="add", arguments="{}")),
        Message(role="assistant", content="four", reasoning="two and two"),
        Message(role="tool", content="4", tool_call_id="1"),
    ],
)
def test_a_message_survives_the_round_trip(message: Message) -> None:
    assert back(message) == message


def test_a_call_without_words_has_null_content() -> None:
    sent = as_json(assistant("", ToolRequest(id="1", name="add", arguments='{"a":1}')))
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    assert sent == {"role": "assistant", "content": None, "tool_calls": [call]}


def test_reasoning_stays_home_where_it_is_not_wanted() -> None:
    message = Message(role="assistant", content="4", reasoning="hm")
    assert as_json(message, with_reasoning=False) == {"role": "assistant", "content": "4"}


def test_a_picture_travels_as_a_data_uri() -> None:
    sent = as_json(Message(role="user", content=(Text(text="see"), PICTURE)), {PICTURE.digest: b"png"})
    assert sent["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
    ]


def test_media_come_back_by_the_digest_of_their_bytes() -> None:
    wire = to_wire(Message(role="user", content=(PICTURE,)), {PICTURE.digest: b"png"}, with_reasoning=False)
    media: dict[str, bytes] = {}
    (part,) = from_wire(wire, media).content
    assert isinstance(part, Media)
    assert media == {part.digest: b"png"}


def test_sound_travels_as_input_audio() -> None:
    sound = Media(digest=PICTURE.digest, mime_type="audio/x-wav")
    sent = as_json(Message(role="user", content=(sound,)), {sound.digest: b"wav"})
    assert sent["content"] == [{"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}}]


@pytest.mark.parametrize(
    ("mime_type", "sent"), [("audio/mpeg", "mp3"), ("audio/vnd.wave", "wav"), ("audio/flac", "flac")]
)
def test_sound_is_called_as_the_wire_calls_it(mime_type: str, sent: str) -> None:
    sound = Media(digest=PICTURE.digest, mime_type=mime_type)
    (part,) = as_json(Message(role="user", content=(sound,)), {sound.digest: b"wav"})["content"]
    assert part["input_audio"]["format"] == sent
    (again,) = from_wire(WireMessage("user", [part]), {}).content
    assert isinstance(again, Media)
    assert again.mime_type == mime_type.replace("vnd.wave", "wav")


def test_a_document_travels_as_a_file_and_comes_back() -> None:
    paper = Media.named(b"%PDF-", "application/pdf")
    sent = as_json(Message(role="user", content=(paper,)))
    file = {"filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    assert sent["content"] == [{"type": "file", "file": file}]
    media: dict[str, bytes] = {}
    assert from_wire(WireMessage("user", sent["content"]), media).content == (paper,)
    assert media == {paper.digest: b"%PDF-"}


@pytest.mark.parametrize("mime_type", ["video/mp4", "model/gltf", "application/\n", "nothing"])
def test_what_the_wire_has_no_place_for_is_an_error(mime_type: str) -> None:
    with pytest.raises(ModelError, match="no place for media of type"):
        as_json(Message(role="user", content=(Media.named(b"x", mime_type),)))


def test_media_without_bytes_are_an_error() -> None:
    with pytest.raises(ModelError, match="not at hand"):
        as_json(Message(role="user", content=(PICTURE,)))


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        (WireMessage("robot", "x"), "unknown role"),
        (WireMessage("user"), "lacks content"),
        (WireMessage("tool", "x"), "lacks tool_call_id"),
        (WireMessage("user", [{"type": "dance"}]), "not understood"),
        (WireMessage("user", [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]), "not a base64 data URI"),
        (WireMessage("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}}]), "not base64"),
        (WireMessage("user", [{"type": "image_url", "image_url": {"url": "data:video/mp4;base64,"}}]), "no image"),
        (WireMessage("user", [{"type": "image_url", "image_url": {"url": "data:;base64,cG5n"}}]), "no image"),
        (WireMessage("user", [{"type": "input_audio", "input_audio": {"data": "", "format": "x/y"}}]), "not known"),
        (
            WireMessage("user", [{"type": "file", "file": {"file_id": "file-1"}}]),
            "file_data of a part 'file' is not a base64",
        ),
        (WireMessage("user", [{"type": "file", "file": {"file_data": "data:image/png;base64,"}}]), "no document"),
        (WireMessage("user", [{"type": "file", "file": "x"}]), "not understood"),
        (WireMessage("user", [{"type": "input_audio", "input_audio": {"data": "", "format": ["wav"]}}]), "not known"),
    ],
)
def test_a_malformed_message_is_named(wire: WireMessage, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        from_wire(wire, {})


def test_tools_keep_names_words_and_schemas() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tools = (Tool(name="add", description="Add.", input_schema=schema), Tool(name="bare", input_schema={}))
    sent = msgspec.json.decode(encode_tools(tools))
    assert sent[0] == {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": schema}}
    found = decode_tools(msgspec.json.decode(encode_tools(tools), type=list[WireTool]))
    assert [tool.name for tool in found] == ["add", "bare"]
    assert found[0].input_schema == schema


def test_schemas_are_encoded_once_for_the_same_tools() -> None:
    schemas, tool = ToolSchemas(capacity=1), Tool(name="add", input_schema={})
    first = schemas.encoded([tool])
    assert schemas.encoded((tool,)) is first
    schemas.encoded([Tool(name="other", input_schema={})])
    assert bytes(schemas.encoded([tool])) == bytes(first)
