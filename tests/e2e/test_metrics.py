"""The metrics port."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from jobs import QUICK


@pytest.fixture(scope="module")
def scraped(daemon):
    job = daemon.json(*QUICK)["id"]
    return job, daemon.metrics()


def value(text, name, **labels):
    for line in text.splitlines():
        found = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if found and all(f'{key}="{label}"' in (found[1] or "") for key, label in labels.items()):
            return float(found[2])
    raise AssertionError(f"no series {name} with {labels}")


def test_training_is_counted(scraped):
    job, text = scraped
    assert value(text, "hearth_train_batches_total", job=job) == 2 * 29
    assert value(text, "hearth_train_epochs_total", job=job) == 2
    assert 0 < value(text, "hearth_train_loss", job=job) < 10
    assert value(text, "hearth_stage_busy_seconds_total", job=job, stage="train") > 0


def test_the_daemon_describes_itself(scraped):
    _, text = scraped
    assert value(text, "hearth_build_info") == 1
    assert value(text, "hearth_jobs", state="succeeded") >= 2
    assert value(text, "hearth_process_memory_bytes", kind="anonymous") > 0
    assert value(text, "hearth_data_dir_free_bytes") > 0


def test_promtool_finds_no_fault(scraped):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    checked = subprocess.run([promtool, "check", "metrics"], input=scraped[1],
                             capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stderr.strip() == ""
