"""Verdicts over HTTP: ours, and as OpenRLHF asks for them; nobody in without the token, nothing without bounds."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.trainers.reward_server.reward_routes import response_of
from rollouthub.trainers.reward_server.reward_wire import MOST_ANSWERS
from tests.trainers.reward_server.served import ECHO, PLAIN, TOKEN, reward_server, rewards, task


async def test_answers_come_back_scored_in_order_and_unscored_ones_as_null_with_the_reason() -> None:
    answers = [
        {"task": task(1), "answer": "1"},
        {"task": json.dumps(task(2)), "answer": [{"role": "assistant", "content": "1"}]},
        {"task": task(3), "answer": "away"},
        {"task": task("none such"), "answer": "4"},
    ]
    async with rewards(ECHO) as server:
        status, reply = await server.post("/v1/rewards", {"answers": answers})
    assert (status, reply["rewards"], reply["passed"]) == (200, [1.0, 0.0, None, None], [True, False, None, None])
    assert reply["problems"][:2] == [None, None]
    assert "the judge is away" in reply["problems"][2]
    assert "test/none such" in reply["problems"][3]


async def test_openrlhf_hears_the_rewards_of_what_was_said_after_the_prompt() -> None:
    prompt = "<|im_start|>user\nSay 3<|im_end|>\n<|im_start|>assistant\n"
    body = {
        "query": ["<s>" + prompt + "3<|im_end|>", prompt + "4<|im_end|>\n"],
        "prompts": [prompt, prompt],
        "labels": [json.dumps(task(3))] * 2,
        "images": [None, None],
    }
    async with rewards(ECHO) as server:
        assert await server.post("/openrlhf", body) == (
            200,
            {"rewards": [1.0, 0.0], "scores": [1.0, 0.0], "extra_logs": {}},
        )
        said = [f"http://x:{TOKEN}@host", f"http://x:{TOKEN}1@host"]
        basic = [b64encode(url[7:].rpartition("@")[0].encode()).decode() for url in said]
        for word, expected in zip(basic, (200, 401), strict=True):
            status, _ = await server.post("/openrlhf", body, None, authorization=f"Basic {word}")
            assert status == expected


async def test_openrlhf_hears_no_reward_at_all_where_an_answer_is_unscored() -> None:
    body = {"query": ["p3", "paway"], "prompts": ["p", "p"], "labels": [json.dumps(task(3))] * 2}
    async with rewards(ECHO) as server:
        status, reply = await server.post("/openrlhf", body)
        assert status == 503
        assert "1 of 2 answers are unscored" in reply["error"]["message"]
        wrongs: list[dict[str, list[str]]] = [
            {"labels": ["4", "4"]},
            {"prompts": ["q", "q"]},
            {"prompts": ["", ""]},
            {"labels": []},
        ]
        for wrong in wrongs:
            assert (await server.post("/openrlhf", {**body, **wrong}))[0] == 400


@pytest.mark.parametrize(
    "query", ["a word before prompt 7", "another", "<|user|> words prompt 7", "prom", ""], ids=range(5)
)
def test_a_query_that_does_not_begin_with_its_prompt_is_not_scored_by_the_prompts_own_words(query: str) -> None:
    assert response_of("<s> <|begin|>prompt 7</s>", "prompt") == " 7"
    with pytest.raises(ConfigError, match="does not begin with its prompt"):
        response_of(query, "prompt")


async def test_nobody_is_answered_without_the_token_nor_a_page_from_elsewhere() -> None:
    body = {"answers": [{"task": task(1), "answer": "1"}]}
    async with rewards(ECHO) as server:
        for path in ("/v1/rewards", "/openrlhf", "/v1/images", "/v1/none such"):
            for token in (None, "", "another", TOKEN + " "):
                if token != TOKEN + " ":  # white space around a header's value is no part of it
                    assert (await server.post(path, body, token))[0] == 401
        for headers in ({"origin": "http://evil.example"}, {"authorization": "Basic ????"}, {"authorization": "Basic"}):
            status, _ = await server.post("/v1/rewards", body, **headers)
            assert status in (401, 403)
        assert (await server.post("/v1/rewards", body, host="evil.example"))[0] == 421
        assert (await server.post("/v1/rewards", body))[0] == 200
        assert (await server.post("/v1/nothing", body))[0] == 404
    async with rewards(ECHO, token=None) as open_server:
        assert (await open_server.post("/v1/rewards", body, None))[0] == 200
        status, _ = await open_server.post("/v1/rewards", body, None, origin="http://evil.example")
        assert status == 403


async def test_what_is_too_much_or_malformed_is_refused() -> None:
    one = {"task": task(1), "answer": "1"}
    async with rewards(ECHO) as server:
        assert (await server.post("/v1/rewards", b" " * (64 * 2**20 + 1)))[0] == 413
        assert (await server.post("/v1/rewards", {"answers": [one] * (MOST_ANSWERS + 1)}))[0] == 400
        for body in (
            b"{",
            b"[" * 100_000,
            {"answers": [{"task": "x", "answer": "1"}]},
            {"answers": [{"task": task(1)}]},
            {"answers": [{"task": "[" * 50_000, "answer": "1"}]},
            {"answers": [{"task": '{"environment": ["x"], "split": {}, "task_id": 1}', "answer": "1"}]},
        ):
            assert (await server.post("/v1/rewards", body))[0] == 400
        status, reply = await server.post("/v1/rewards", {"answers": [{"task": task(1, "math"), "answer": "1"}]})
        assert status == 400
        assert "math" in reply["error"]["message"]
        assert (await server.post("/v1/images", {"images": [], "prompts": []}))[0] == 501


async def test_a_server_without_a_token_or_with_nothing_to_do_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="open to a network"):
        async with reward_server(ECHO, token=None, host="0.0.0.0"):
            pass
    with pytest.raises(ConfigError, match="--host is empty"):
        async with reward_server(ECHO, host=""):
            pass
    with pytest.raises(ConfigError, match="nothing to score with"):
        async with reward_server():
            pass
    with pytest.raises(ConfigError, match="no folder"):
        async with reward_server(scorer=PLAIN, images=tmp_path / "none"):
            pass
