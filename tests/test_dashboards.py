"""The Prometheus rules and the Grafana dashboard name metrics that exist, and each other's.

Which numbers the plugin registers is read from its source; that they appear under Spark's names is
tested where Spark runs (WarmsetTabSuite, test_ui).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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


TOP_RULES = ROOT / "etc/prometheus/warmset-top.rules.yml"
TOP_DASHBOARD = json.loads((ROOT / "etc/grafana/warmset-top.json").read_text())
SERIES = re.compile(r"\b(warmset_(?:store|split|prefetch|tier|top)_\w+)")


def written() -> set[str]:
    """The series that `warmset top --metrics` writes, from its source."""
    source = (ROOT / "crates/cli/src/top/metrics.rs").read_text()
    names = {f"warmset_{name}" for name in re.findall(r'family\(\s*&?(?:mut )?text,\s*"(\w+)"', source)}
    for kind in ("store", "split", "prefetch"):
        part = source.split(f'"{kind}_{{name}}"')[1].split("\nfn ")[0]
        names |= {f"warmset_{kind}_{name}" for name in re.findall(r'one\(\s*"(\w+)"', part)}
    tier = (ROOT / "crates/tiering/src/report.rs").read_text()
    return names | {f"warmset_tier_{name}" for name in re.findall(r'family\(\s*"(\w+)"', tier)}


def test_rules_and_dashboard_of_top_name_series_that_are_written() -> None:
    rules = TOP_RULES.read_text()
    known = written() | set(re.findall(r"- record: (\w+)", rules))
    assert len(written()) > 35
    assert set(SERIES.findall(rules)) <= known
    shown = [target["expr"] for panel in TOP_DASHBOARD["panels"] for target in panel["targets"]]
    assert set(SERIES.findall(" ".join(shown))) <= written()
    for panel in TOP_DASHBOARD["panels"]:
        assert panel["title"] and len(panel["description"]) > 20
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_the_reference_of_top_describes_every_series() -> None:
    reference = (ROOT / "docs/reference/top.md").read_text()
    for name in written():
        short = re.sub(r"^warmset_(store|split|prefetch)_", "", name)
        assert f"`{name}`" in reference or f"`{short}`" in reference or name.startswith("warmset_tier_"), name


def test_prometheus_takes_the_rules_and_the_expressions(tmp_path: Path) -> None:
    """With Prometheus' own tool, where it is installed."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (it comes with Prometheus): rules and expressions are not parsed")
    panels = DASHBOARD["panels"] + TOP_DASHBOARD["panels"]
    shown = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    # As rules, which are JSON as well as YAML.
    rules = [{"record": f"panel_{n}", "expr": expression} for n, expression in enumerate(shown)]
    expressions = tmp_path / "panels.yml"
    expressions.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    files = [*sorted((ROOT / "etc/prometheus").glob("*.yml")), expressions]
    subprocess.run([promtool, "check", "rules", *files], check=True)
