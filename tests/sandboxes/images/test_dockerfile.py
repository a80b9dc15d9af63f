"""Finding and replacing the images that a Dockerfile starts from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub_sandboxes.images.dockerfile import external_images, instructions, rewrite


def put(text: str, table: dict[str, str], **arguments: str) -> str:
    return rewrite(text, arguments, lambda name: table.get(name, name))


def test_a_base_is_replaced_and_the_rest_stays_as_it_is() -> None:
    text = "# keep me\nFROM python:3.12-slim\nRUN echo FROM python:3.12-slim \\\n  && true\n"
    assert put(text, {"python:3.12-slim": "rollouthub/python"}) == text.replace(
        "\nFROM python:3.12-slim", "\nFROM rollouthub/python"
    )


def test_stages_are_no_images_and_keep_their_names() -> None:
    text = (
        "from golang:1.22 as Build\nRUN go build\nFROM build AS test\n"
        "FROM scratch\nCOPY --from=Build /a /a\nCOPY --from=0 /b /b\n"
    )
    assert external_images(text, {}) == ["golang:1.22"]
    assert put(text, {"golang:1.22": "mine"}).startswith("FROM mine AS Build\n")
    assert put(text, {"golang:1.22": "mine"}).endswith("FROM scratch\nCOPY --from=Build /a /a\nCOPY --from=0 /b /b\n")


def test_an_image_that_is_only_copied_from_counts() -> None:
    text = "FROM scratch\nCOPY --chown=1:1 --from=ghcr.io/astral-sh/uv:0.4 /uv /bin/uv\n"
    assert external_images(text, {}) == ["ghcr.io/astral-sh/uv:0.4"]
    assert "--from=local/uv /uv" in put(text, {"ghcr.io/astral-sh/uv:0.4": "local/uv"})


@pytest.mark.parametrize(
    ("reference", "arguments", "expected"),
    [
        ("$BASE:$TAG", {}, "python:3.11"),
        ("${BASE}:${TAG}", {"TAG": "3.13"}, "python:3.13"),
        ("${OTHER:-debian}:${TAG}", {}, "debian:3.11"),
        ("python${TAG:+:latest}", {}, "python:latest"),
        ("$FULL", {}, "python:3.11-slim"),
        ("$FULL", {"TAG": "9"}, "python:9-slim"),
    ],
)
def test_arguments_before_the_first_base_are_filled_in(
    reference: str, arguments: dict[str, str], expected: str
) -> None:
    text = f'ARG BASE=python\nARG TAG="3.11"\nARG FULL=${{BASE}}:${{TAG}}-slim\nFROM {reference}\nARG BASE=ignored\n'
    assert external_images(text, arguments) == [expected]
    assert "FROM mine\n" in put(text, {expected: "mine"}, **arguments)


def test_an_argument_nobody_declared_is_not_filled_in() -> None:
    assert external_images("FROM python:3$SUFFIX\n", {"SUFFIX": "-slim"}) == ["python:3"]


def test_a_platform_goes_where_another_image_stands_in_and_stays_otherwise() -> None:
    text = "FROM --platform=linux/amd64 python:3\n"
    assert put(text, {"python:3": "mine"}) == "FROM mine\n"
    assert put(text, {}) == text


def test_what_only_newer_builders_know_and_nothing_depends_on_is_left_out() -> None:
    text = (
        "FROM --platform=$BUILDPLATFORM a AS b\n"
        "RUN --mount=type=cache,target=/root/.cache/pip pip install x\n"
        "COPY --link --from=b /x /x\n"
    )
    assert put(text, {}) == "FROM a AS b\nRUN pip install x\nCOPY --from=b /x /x\n"


def test_breaks_comments_and_other_escapes_are_understood() -> None:
    text = "FROM \\\n  # a comment between\n\n  python:3 \\\n  AS one\nRUN true\n"
    assert external_images(text, {}) == ["python:3"]
    assert external_images("# escape=`\nFROM `\npython:4\nRUN dir C:\\\nFROM x\n", {}) == ["python:4", "x"]


def test_a_here_document_is_not_read_for_bases() -> None:
    text = "FROM a\nRUN cat <<EOF > /x\nFROM b\nEOF\nRUN <<-'END' sh\nFROM c\n\tEND\nRUN cat <<< word\nFROM d\n"
    assert external_images(text, {}) == ["a", "d"]


@given(st.text(alphabet=st.sampled_from("FROM RUN ARG\\\n#<$ a=-EOF{}:'\""), max_size=80))
def test_a_file_that_needs_no_change_stays_byte_for_byte(text: str) -> None:
    assert "".join(instruction.written for instruction in instructions(text)) == text
