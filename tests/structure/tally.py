#!/usr/bin/env python3
"""Adds up the tests that tests/run.sh ran, each test once, by kind.

    tests/structure/tally.py STEPS

STEPS has a line for each step: kind, name, exit status, seconds and a file of
results, separated by tabs. The suffix of the file tells the unit that is counted:

    .xml    pytest's JUnit report: test cases
    .json   Bazel's build events: test targets
    .skips  lines of names and reasons: tests that were left out, no step
    (none)  the step itself

Prints a table, the failures, the skips with their reasons and, as the last
line, "N passed, N failed, N skipped". Exits with 1 if anything failed.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Outcome(NamedTuple):
    name: str
    result: str
    reason: str = ""


class Step(NamedTuple):
    kind: str
    name: str
    status: int
    seconds: int
    results: Optional[Path]


def read_steps(path: Path) -> list[Step]:
    steps = []
    for line in path.read_text().splitlines():
        kind, name, status, seconds, results = line.split("\t")
        steps.append(Step(kind, name, int(status), int(seconds),
                          Path(results) if results else None))
    return steps


def pytest_outcomes(report: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            yield Outcome(name, FAILED)
        elif skipped is not None:
            yield Outcome(name, SKIPPED, skipped.get("message", ""))
        else:
            yield Outcome(name, PASSED)


def skipped_cases(uri: str) -> tuple[list[Outcome], bool]:
    """Skipped cases in a GoogleTest report, and whether all cases are skipped."""
    path = Path(urllib.request.url2pathname(urllib.parse.urlparse(uri).path))
    cases = list(ElementTree.parse(path).iter("testcase"))
    skipped = [Outcome(f"{case.get('classname')}.{case.get('name')}", SKIPPED, reason.get("message", ""))
               for case in cases if (reason := case.find("skipped")) is not None]
    return skipped, bool(cases) and len(skipped) == len(cases)


def bazel_outcomes(events: Path) -> Iterator[Outcome]:
    """An outcome for each target. Skipped cases of a target that passed are further outcomes
    without a result: they are printed, not counted."""
    tests: dict[str, str] = {}
    reports: dict[str, set[str]] = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        for kind, key in event["id"].items():
            if kind == "targetConfigured" and "testSize" in event.get("configured", {}):
                tests.setdefault(key["label"], "did not build or run")
            elif kind == "testResult":
                reports.setdefault(key["label"], set()).update(
                    output["uri"] for output in event["testResult"].get("testActionOutput", ())
                    if output["name"] == "test.xml")
            elif kind == "testSummary":
                tests[key["label"]] = event["testSummary"]["overallStatus"]
    for label, status in sorted(tests.items()):
        if status != "PASSED":
            yield Outcome(label, FAILED, status)
            continue
        found = [skipped_cases(uri) for uri in sorted(reports.get(label, ()))]
        cases = sorted({case for skipped, _ in found for case in skipped})
        if found and all(whole for _, whole in found):
            yield Outcome(label, SKIPPED, cases[0].reason)
            continue
        yield Outcome(label, PASSED)
        for case in cases:
            yield Outcome(f"{label} {case.name}", "", case.reason)


def outcomes(step: Step) -> list[Outcome]:
    """Outcomes of a step. A step that failed without a failed outcome is itself a failure, and so
    is a step without outcomes."""
    step_itself = Outcome(step.name, FAILED if step.status else PASSED)
    if step.results is None:
        return [step_itself]
    if step.results.suffix == ".skips":
        pairs = (line.split("\t") for line in step.results.read_text().splitlines())
        return [Outcome(name, SKIPPED, reason) for name, reason in pairs]
    read = {".xml": pytest_outcomes, ".json": bazel_outcomes}[step.results.suffix]
    found = list(read(step.results)) if step.results.exists() else []
    has_failed = any(outcome.result == FAILED for outcome in found)
    if not found or (step.status and not has_failed):
        found.append(Outcome(step.name, FAILED, f"exit status {step.status}"))
    return found


def tell(title: str, told: list[Outcome]) -> None:
    if told:
        print(f"\n{title}:")
    for outcome in told:
        reason = outcome.reason.strip().replace("\n", " ")
        print(f"  {outcome.name}" + (f": {reason}" if reason else ""))


def main(path: Path) -> int:
    counts: dict[str, dict[str, int]] = {}
    seconds: dict[str, int] = {}
    everything: list[Outcome] = []
    for step in read_steps(path):
        row = counts.setdefault(step.kind, {PASSED: 0, FAILED: 0, SKIPPED: 0})
        seconds[step.kind] = seconds.get(step.kind, 0) + step.seconds
        for outcome in outcomes(step):
            everything.append(outcome)
            if outcome.result:
                row[outcome.result] += 1
    print(f"\n{'kind':<36}{'passed':>8}{'failed':>8}{'skipped':>8}{'minutes':>9}")
    for kind, row in counts.items():
        print(f"{kind:<36}{row[PASSED]:>8}{row[FAILED]:>8}{row[SKIPPED]:>8}"
              f"{seconds[kind] / 60:>9.1f}")
    tell("failed", [each for each in everything if each.result == FAILED])
    tell("skipped", [each for each in everything if each.result == SKIPPED])
    tell("skipped cases of targets that passed, not counted",
         [each for each in everything if not each.result])
    totals = {result: sum(row[result] for row in counts.values())
              for result in (PASSED, FAILED, SKIPPED)}
    print("\n" + ", ".join(f"{count} {result}" for result, count in totals.items()))
    return 1 if totals[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
