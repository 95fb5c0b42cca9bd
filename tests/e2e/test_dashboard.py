"""Rules and dashboard, with a Prometheus that scrapes a daemon that trains."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess

import pytest

from jobs import ENDLESS
from prometheus import DEPLOY, RULES, Prometheus, faster, tool

# Reads from disk within a cache, in batches that end soon.
READS = (*ENDLESS, "--strategy", "gnndrive", "--cpu-cache", "64KiB", "--fanouts", "5,5",
         "--hidden", "16")


def promtool(*arguments):
    return subprocess.run([tool("promtool"), *arguments], capture_output=True, text=True,
                          check=False, cwd=RULES)


def test_rules_are_sound():
    for arguments in (("check", "config", "scrape.yml"), ("test", "rules", "rules_test.yml")):
        checked = promtool(*arguments)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_has_its_paragraph_and_its_tests():
    rules = (RULES / "alerts.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    headings = re.findall(r"^## (\w+)$", (RULES / "RUNBOOK.md").read_text(), re.MULTILINE)
    assert headings == alerts
    anchors = re.findall(r"runbook: deploy/prometheus/RUNBOOK.md#(\w+)", rules)
    assert anchors == [alert.lower() for alert in alerts]
    cases = (RULES / "rules_test.yml").read_text()
    for alert in alerts:
        outcomes = re.findall(rf"alertname: {alert}\n +exp_alerts:( \[\])?", cases)
        assert "" in outcomes, f"{alert} never fires"
        assert " []" in outcomes, f"{alert} never clears"


@pytest.fixture(scope="module")
def scraped(daemon, tmp_path_factory):
    """A Prometheus, and the job that the daemon trains meanwhile."""
    job = daemon.json(*READS, "--detach")["id"]
    daemon.json(*READS, "--seed", "9", "--detach")
    with contextlib.closing(Prometheus(tmp_path_factory.mktemp("prometheus") / "p",
                                       [daemon.metrics_address])) as prometheus:
        yield prometheus, job


def panel_queries():
    dashboard = json.loads((DEPLOY / "grafana/hearth.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")


@pytest.mark.parametrize("expression", list(panel_queries()))
def test_every_panel_has_data(scraped, expression):
    prometheus, job = scraped
    assert "$" not in expression.replace("$instance", "").replace("$job", "")
    expression = expression.replace("$instance", ".+").replace("$job", job)
    assert prometheus.wait_for_data(faster(expression))


def test_variables_of_the_dashboard_have_values(scraped):
    prometheus, job = scraped
    prometheus.wait_for_data("hearth_build_info")
    found = prometheus.wait_for_data("hearth_train_batches_total")
    assert job in {series["metric"]["job"] for series in found}


def test_every_rule_is_evaluated(scraped):
    prometheus, job = scraped
    for rule in prometheus.rules():
        assert rule["health"] in ("ok", "unknown"), rule
        if rule["type"] == "recording":
            assert prometheus.wait_for_data(rule["name"])
    assert all(rule["health"] == "ok" for rule in prometheus.rules())


def test_series_of_alerts_are_there(scraped):
    """What an alert looks at must exist where nothing is wrong; io_uring's absence aside."""
    prometheus, _ = scraped
    names = set(re.findall(r"(?<![\w:])hearth_\w+", (RULES / "alerts.yml").read_text()))
    for name in sorted(names):
        assert prometheus.wait_for_data(name), name
    assert prometheus.wait_for_data('hearth_read_operations_total{result="error"}')
