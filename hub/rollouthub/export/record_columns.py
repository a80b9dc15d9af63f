"""The columns of tables of records: their names, in order, and their Arrow types."""

from typing import Any, Literal

Table = Literal["rollouts", "turns", "tool_calls", "segments"]
Columns = list[tuple[str, Any]]

KEYS = ("run_id", "rollout_id", "group_id", "sample", "attempt", "environment", "split", "task_id")
STAGES = ("queue", "setup", "agent", "model", "tool", "verify", "close", "total")


def typed_columns(arrow: Any, table: Table) -> Columns:
    """The names of a table's columns, and their Arrow types."""
    types = _Types(arrow)
    keys = [(name, types.small if name in ("sample", "attempt") else types.text) for name in KEYS]
    verdict = [("outcome", types.text), ("stop", types.text), ("reward", types.real), ("passed", types.truth)]
    match table:
        case "turns":
            return [*keys, *verdict, *_turns(types)]
        case "tool_calls":
            return [*keys, *verdict, *_tool_calls(types)]
        case "segments":
            return [*keys, *verdict, *_segments(types)]
        case "rollouts":
            return [*keys, *_played(types), *verdict, *_rollouts(types)]


class _Types:
    """Arrow's types, by the kind of a column's values."""

    def __init__(self, arrow: Any) -> None:
        self.text, self.whole, self.real, self.truth = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
        self.small, self.moment = arrow.int32(), arrow.timestamp("us", tz="UTC")
        self.ids, self.logprobs = arrow.list_(arrow.int32()), arrow.list_(arrow.float32())
        self.texts = arrow.list_(self.text)
        function = arrow.struct([("name", self.text), ("arguments", self.text)])
        call = arrow.struct([("id", self.text), ("type", self.text), ("function", function)])
        self.message = arrow.struct(
            [
                ("role", self.text),
                ("content", self.text),
                ("reasoning_content", self.text),
                ("tool_calls", arrow.list_(call)),
                ("tool_call_id", self.text),
            ]
        )
        self.messages = arrow.list_(self.message)
        self.components = arrow.list_(arrow.struct([("name", self.text), ("value", self.real), ("weight", self.real)]))
        self.metrics = arrow.list_(arrow.struct([("name", self.text), ("value", self.real)]))
        span = [("start", self.small), ("end", self.small), ("reward", self.real), ("unit", self.text)]
        self.spans = arrow.list_(arrow.struct(span))
        fault = [(name, self.text) for name in ("boundary", "phase", "type", "message")]
        self.faults = arrow.list_(arrow.struct(fault))
        who = [("by", self.text), ("at", self.real)]
        noted = [
            ("tags", self.texts),
            ("starred", self.truth),
            ("comments", arrow.list_(arrow.struct([("text", self.text), *who]))),
            ("reviews", arrow.list_(arrow.struct(who))),
        ]
        of_turns = arrow.list_(arrow.struct([("turn", self.small), *noted]))
        self.notes = arrow.struct([*noted, ("turns", of_turns)])


def _turns(of: _Types) -> Columns:
    return [
        ("turn", of.small),
        ("parent_turn", of.small),
        ("seat", of.text),
        ("messages", of.messages),
        ("response", of.message),
        ("finish_reason", of.text),
        ("turn_reward", of.real),
        ("seat_reward", of.real),
        ("span_rewards", of.spans),
        ("anchor_group", of.text),
        ("prompt_tokens", of.whole),
        ("output_tokens", of.whole),
        ("cost", of.real),
        ("seconds", of.real),
        ("prompt_token_ids", of.ids),
        ("output_token_ids", of.ids),
        ("output_logprobs", of.logprobs),
        ("output_mask", of.ids),
        ("policy_version", of.whole),
    ]


def _tool_calls(of: _Types) -> Columns:
    return [
        ("turn", of.small),
        ("seat", of.text),
        ("call", of.small),
        ("name", of.text),
        ("arguments", of.text),
        ("result", of.text),
        ("is_error", of.truth),
        ("started", of.real),
        ("seconds", of.real),
        ("bytes", of.whole),
    ]


def _segments(of: _Types) -> Columns:
    return [
        ("trainable", of.truth),
        ("seat", of.text),
        ("prompt_length", of.small),
        ("token_ids", of.ids),
        ("loss_mask", of.ids),
        ("logprobs", of.logprobs),
        ("turn_ids", of.ids),
        ("versions", of.ids),
        ("fork", of.text),
        ("shared", of.whole),
        ("dropped", of.whole),
    ]


def _played(of: _Types) -> Columns:
    """The columns that identify the task, the environment, the agent and the model."""
    return [
        ("task_digest", of.text),
        ("source", of.text),
        ("seed", of.whole),
        ("environment_version", of.text),
        ("environment_digest", of.text),
        ("environment_bundle", of.text),
        ("environment_dependencies", of.text),
        ("agent", of.text),
        ("agent_version", of.text),
        ("model", of.text),
    ]


def _rollouts(of: _Types) -> Columns:
    return [
        ("components", of.components),
        ("metrics", of.metrics),
        ("suspect", of.text),
        ("feedback", of.text),
        ("verifier", of.text),
        ("verifier_version", of.text),
        ("verifier_digest", of.text),
        ("answer", of.text),
        ("messages", of.messages),
        ("turns", of.small),
        ("tool_calls", of.small),
        ("prompt_tokens", of.whole),
        ("output_tokens", of.whole),
        ("cost", of.real),
        ("started_at", of.moment),
        *((f"{stage}_seconds", of.real) for stage in STAGES),
        ("faults", of.faults),
        ("isolation", of.text),
        ("sandboxes", of.texts),
        ("policy_version_min", of.whole),
        ("policy_version_max", of.whole),
        ("trainable", of.truth),
        ("trainable_reason", of.text),
        ("gaps", of.texts),
        ("notes", of.notes),
    ]
