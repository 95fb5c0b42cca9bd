"""Debian's Prometheus with the rules of deploy/prometheus, beside real daemons. Each minute in
the rules is a second here, so that what takes an hour is seen within one."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Optional

import pytest

from daemon import PATIENCE_SECONDS, wait_for

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus"


def tool(name: str) -> str:
    """The path of one of Prometheus' programs; without it the test is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian: prometheus)")
    return path


def faster(text: str) -> str:
    """Rules or queries with seconds in place of minutes."""
    text = re.sub(r"\b(\d+)m\b", r"\1s", text)
    return text.replace("* 60", "* 1")


class Prometheus:
    """Scrapes the metrics ports `targets` each 300 ms."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        folder.mkdir()
        for rules in ("recording.yml", "alerts.yml"):
            (folder / rules).write_text(faster((RULES / rules).read_text()))
        config = (RULES / "scrape.yml").read_text()
        config = config.replace("_interval: 15s", "_interval: 300ms")
        config = config.replace('["127.0.0.1:9600"]', json.dumps(targets))
        (folder / "scrape.yml").write_text(config)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = "127.0.0.1:%d" % probe.getsockname()[1]
        self._log = folder / "prometheus.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [tool("prometheus"), f"--config.file={folder / 'scrape.yml'}",
                 f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={self._address}", "--query.lookback-delta=3s"],
                stdout=log, stderr=log)
        wait_for(self._is_ready, "Prometheus to start")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict]:
        return self._get("query", query=expression)["result"]

    def rules(self) -> list[dict]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self._get("alerts")["alerts"]
                if alert["state"] == "firing"}

    def wait_until_firing(self, alert: str) -> None:
        wait_for(lambda: alert in self.firing(), f"{alert} to fire", poll_seconds=0.1)

    def wait_until_clear(self, alert: str) -> None:
        wait_for(lambda: alert not in self.firing(), f"{alert} to clear", poll_seconds=0.1)

    def wait_for_data(self, expression: str) -> list[dict]:
        def result() -> Optional[list[dict]]:
            return self.query(expression) or None
        return wait_for(result, f"data of {expression}", poll_seconds=0.1)
