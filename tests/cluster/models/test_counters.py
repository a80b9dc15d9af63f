"""A server's own counters."""

from rollouthub.cluster.models.server_counters import Rate, ServerCounts, read_counts

TEXT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1e3
vllm:generation_tokens_total_created{engine="0",model_name="tiny"} 5.0
"""


def test_counters_of_all_engines_are_added_up() -> None:
    counts = read_counts(TEXT)
    assert counts == ServerCounts(running=4, waiting=2, generated=1000.0)
    assert counts.in_flight == 6


def test_sglangs_counters_have_other_names() -> None:
    text = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="tiny",tp_rank="0"} 3.0
sglang:num_queue_reqs{model_name="tiny",tp_rank="0"} 2.0
sglang:gen_throughput{model_name="tiny",tp_rank="0"} 70.5
sglang:generation_tokens_total{is_streaming="false",model_name="tiny"} 900.0
sglang:generation_tokens_total{is_streaming="true",model_name="tiny"} 100.0
"""
    assert read_counts(text) == ServerCounts(running=3, waiting=2, generated=1000.0)


def test_a_server_without_counters_is_not_said_to_be_idle() -> None:
    assert read_counts("<html>").in_flight is None


def test_the_rate_is_that_of_late() -> None:
    rate = Rate()
    assert rate.add(0.0, 0.0) is None
    assert rate.add(10.0, 1000.0) == 100.0
    assert rate.add(20.0, 1000.0) == 0.0


def test_the_rate_survives_a_restart() -> None:
    rate = Rate()
    rate.add(0.0, 5000.0)
    assert rate.add(1.0, 10.0) is None
    assert rate.add(2.0, 20.0) == 10.0
