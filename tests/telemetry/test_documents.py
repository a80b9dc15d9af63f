"""The dashboard, the alerts and the page speak of metrics there are, with labels they have."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from rollouthub.telemetry.metrics.catalogue import METRICS, table
from rollouthub.telemetry.metrics.exposition import expose
from tests.telemetry.full import full
from tests.telemetry.promql import parse

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "monitoring"
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""


def dashboard() -> dict[str, Any]:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[Any]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for rule in rules():
        yield pytest.param(rule["expr"], id=rule["alert"])


def exposed() -> dict[str, dict[str, set[str]]]:
    """Sample → label → the values it has."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(expose(full())[0].decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


EXPOSED = exposed()


@pytest.mark.parametrize("expression", [*expressions()])
def test_an_expression_speaks_of_metrics_and_labels_there_are(expression: str) -> None:
    spoken = parse(expression)
    assert spoken.metrics
    assert spoken.metrics <= EXPOSED.keys()
    for matcher in spoken.matchers:
        if matcher.label in SCRAPED:
            continue
        values = EXPOSED[matcher.metric][matcher.label]
        if not matcher.value.startswith("$"):
            wanted = matcher.value.split("|") if matcher.operator == "=~" else [matcher.value]
            assert set(wanted) <= values, matcher
    for metric in spoken.metrics:
        assert spoken.groupings <= EXPOSED[metric].keys() | SCRAPED


def test_every_metric_is_on_the_dashboard() -> None:
    said = json.dumps(dashboard())
    missing = [metric.name for metric in METRICS if metric.name not in said]
    assert missing == ["rollouthub_run_bad_rows"]


def test_the_dashboard_can_be_imported_and_nothing_overlaps() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + across, place["y"] + down) for across in range(place["w"]) for down in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert {variable["name"] for variable in dashboard()["templating"]["list"]} == {
        "datasource",
        "instance",
        "environment",
    }


def test_alerts_say_how_bad_it_is_and_what_it_is() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        spoken = parse(rule["expr"])
        known = SCRAPED | {label for metric in spoken.metrics for label in EXPOSED[metric]}
        assert named <= ((spoken.groupings or known) - {"le"}), rule["alert"]


def test_the_pages_table_is_that_of_the_metrics() -> None:
    assert table() in (DOCS / "monitoring.md").read_text(), (
        "put rollouthub.telemetry.metrics.catalogue.table() into the page"
    )


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ("up", {"up"}),
        ('sum by (a, b) (rate(x_total{c="d"}[5m])) / y > 2e9', {"x_total", "y"}),
        ("histogram_quantile(0.99, sum by (le) (rate(x_bucket[5m])))", {"x_bucket"}),
        ("x and on (a) y offset 5m", {"x", "y"}),
        ("predict_linear(x[1h], 4 * 3600) < 0", {"x"}),
    ],
)
def test_the_parser_of_this_test_knows_metrics_from_words(expression: str, metrics: set[str]) -> None:
    assert parse(expression).metrics == metrics


@pytest.mark.live
def test_prometheus_own_tool_takes_the_rules_and_the_metrics() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    done = subprocess.run(
        [promtool, "check", "rules", FOLDER / "alerts.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([promtool, "check", "metrics"], input=expose(full())[0], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
