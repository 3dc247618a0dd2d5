"""The Prometheus rules and the Grafana dashboard name metrics that exist, and each other's.

Which numbers the plugin registers is read from its source; that they appear under Spark's names is
tested where Spark runs (WarmsetTabSuite, test_ui).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = (ROOT / "etc/prometheus/warmset.rules.yml").read_text()
DASHBOARD = json.loads((ROOT / "etc/grafana/warmset.json").read_text())
REPORTER = (ROOT / "spark/src/main/scala/io/warmset/spark/StatsReporter.scala").read_text()
METRICS = (ROOT / "docs/reference/metrics.md").read_text()


def registered() -> set[str]:
    """The gauges that the plugin registers."""
    listed = re.search(r"NumberKeys: Seq\[String\] = Seq\(([^)]*)\)", REPORTER).group(1)
    return set(re.findall(r'"(\w+)"', listed))


def recorded() -> set[str]:
    """The series that the rules make."""
    return set(re.findall(r"- record: (\w+)", RULES))


def test_the_rules_take_up_every_metric_and_no_other() -> None:
    assert set(re.findall(r"WarmsetPlugin_(\w+)_Value", RULES)) == registered()


def test_rules_and_alerts_build_on_recorded_series() -> None:
    assert set(re.findall(r"\b(warmset_\w+)", RULES)) <= recorded()


def test_the_dashboard_shows_recorded_series_only() -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(expressions) > 8
    assert set(re.findall(r"\b(warmset_\w+)", " ".join(expressions))) <= recorded()


def test_every_panel_says_what_it_shows_and_in_which_unit() -> None:
    for panel in DASHBOARD["panels"]:
        assert panel["title"] and len(panel["description"]) > 20
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_the_reference_describes_every_metric() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", METRICS, re.MULTILINE)) == registered()
