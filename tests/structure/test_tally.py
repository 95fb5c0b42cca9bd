"""Every test is counted once, and a step without outcomes has failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TALLY = Path(__file__).with_name("tally.py")


@pytest.fixture
def tally(tmp_path):
    """Runs tally.py over steps, each a kind, an exit status and a results file or ""."""
    def run(*steps):
        lines = [f"{kind}\tstep {number}\t{status}\t60\t{results}\n"
                 for number, (kind, status, results) in enumerate(steps)]
        (tmp_path / "steps").write_text("".join(lines))
        done = subprocess.run([sys.executable, str(TALLY), str(tmp_path / "steps")],
                              capture_output=True, text=True, check=False)
        assert not done.stderr
        return done.returncode, done.stdout
    return run


def last_line(output):
    return output.splitlines()[-1]


def write_events(path, targets):
    """Build events of `targets`: label -> status and GoogleTest report, or None if not built."""
    events = []
    for label, built in targets.items():
        events.append({"id": {"targetConfigured": {"label": label}},
                       "configured": {"testSize": "SMALL"}})
        if built is None:
            continue
        status, report = built
        outputs = []
        if report:
            file = path.parent / f"{label.strip('/').replace(':', '-')}.xml"
            file.write_text(report)
            outputs = [{"name": "test.log", "uri": "file:///nowhere"},
                       {"name": "test.xml", "uri": file.as_uri()}]
        # Run twice, counted once.
        for run in (1, 2):
            events.append({"id": {"testResult": {"label": label, "run": run}},
                           "testResult": {"status": status, "testActionOutput": outputs}})
        events.append({"id": {"testSummary": {"label": label}},
                       "testSummary": {"overallStatus": status}})
    events.append({"id": {"targetConfigured": {"label": "//a:library"}}, "configured": {}})
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_check_counts_itself(tally):
    code, output = tally(("checks", 0, ""), ("checks", 0, ""))
    assert (code, last_line(output)) == (0, "2 passed, 0 failed, 0 skipped")
    code, output = tally(("checks", 0, ""), ("checks", 7, ""))
    assert (code, last_line(output)) == (1, "1 passed, 1 failed, 0 skipped")
    assert "  step 1\n" in output


CASES = """<testsuites><testsuite>
<testcase classname="test_a" name="test_good"/>
<testcase classname="test_a" name="test_bad"><failure message="no"/></testcase>
<testcase classname="test_a" name="test_broken"><error message="no"/></testcase>
<testcase classname="test_a" name="test_left"><skipped message="no disk"/></testcase>
</testsuite></testsuites>"""


def test_cases_of_pytest(tally, tmp_path):
    (tmp_path / "cases.xml").write_text(CASES)
    code, output = tally(("cases", 1, tmp_path / "cases.xml"))
    assert (code, last_line(output)) == (1, "1 passed, 2 failed, 1 skipped")
    assert "  test_a::test_bad\n" in output
    assert "  test_a::test_left: no disk\n" in output


def test_a_step_that_tells_nothing_has_failed(tally, tmp_path):
    for status in (0, 1):
        code, output = tally(("cases", status, tmp_path / "absent.xml"))
        assert (code, last_line(output)) == (1, "0 passed, 1 failed, 0 skipped")


def test_a_status_that_no_case_explains_is_a_failure(tally, tmp_path):
    (tmp_path / "cases.xml").write_text(
        '<testsuite><testcase classname="test_a" name="test_good"/></testsuite>')
    code, output = tally(("cases", 3, tmp_path / "cases.xml"))
    assert (code, last_line(output)) == (1, "1 passed, 1 failed, 0 skipped")
    assert "  step 0: exit status 3\n" in output


SOME = """<testsuites><testsuite><testcase name="Runs" classname="B"/>
<testcase name="Waits" classname="B"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""
ALL = """<testsuites><testsuite>
<testcase name="Waits" classname="C"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


def test_targets_of_bazel(tally, tmp_path):
    events = write_events(tmp_path / "events.json", {
        "//a:good": ("PASSED", None), "//a:some": ("PASSED", SOME), "//a:all": ("PASSED", ALL),
        "//a:bad": ("FAILED", None), "//a:slow": ("TIMEOUT", None), "//a:flaky": ("FLAKY", None),
        "//a:unbuilt": None})
    code, output = tally(("targets", 3, events))
    assert (code, last_line(output)) == (1, "2 passed, 4 failed, 1 skipped")
    assert "  //a:slow: TIMEOUT\n" in output
    assert "  //a:unbuilt: did not build or run\n" in output
    assert "  //a:all: no GPU\n" in output
    assert "  //a:some B.Waits: no GPU\n" in output


def test_what_a_tag_leaves_out_is_skipped_with_its_reason(tally, tmp_path):
    (tmp_path / "tagged.skips").write_text("//a:b\tnot instrumented\n//a:c\tnot instrumented\n")
    events = write_events(tmp_path / "events.json", {"//a:good": ("PASSED", None)})
    code, output = tally(("targets", 0, events), ("targets", 0, tmp_path / "tagged.skips"))
    assert (code, last_line(output)) == (0, "1 passed, 0 failed, 2 skipped")
    assert "  //a:c: not instrumented\n" in output


def test_the_same_case_twice_run_is_told_once(tally, tmp_path):
    events = write_events(tmp_path / "events.json", {"//a:some": ("PASSED", SOME)})
    _, output = tally(("targets", 0, events))
    assert output.count("B.Waits") == 1
