#!/usr/bin/env python3
"""Breaks promises of durability and verification, one at a time: the tests must notice each.

    tests/mutants/run.py [--only NAME]

Works on a copy of the sources beside the checkout's own Bazel cache. A mutant counts as passed
when its tests build and at least one of them fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_CACHE = Path(os.environ.get("HEARTH_CACHE", Path.home() / ".cache/hearth")) / "bazel"
_TESTS_FAILED = 3  # Bazel's exit code: all was built, tests failed.


class Mutant(NamedTuple):
    """`original`, once in `path`, becomes `replacement`."""

    name: str
    path: str
    original: str
    replacement: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant("row CRC", "engine/store/feature_rows.cc",
           "return checksums_.Matches(", "return true || checksums_.Matches(",
           ("//engine/store:store_test",)),
    Mutant("topology CRC", "engine/store/dataset.cc",
           "if (record_.Holds(path, before))", "if (true || record_.Holds(path, before))",
           ("//engine/store:store_test",)),
    Mutant("index bound", "engine/sample/layered_sampler.cc",
           "if (static_cast<uint64_t>(nodes[i]) >= num_nodes)", "if (nodes[i] < 0)",
           ("//engine/sample:sample_test",)),
    Mutant("file fsync", "engine/io/whole_file.cc",
           "HEARTH_RETURN_IF_ERROR(file->Sync());", "",
           ("//engine/io:io_test",)),
    Mutant("folder fsync", "engine/io/whole_file.cc",
           "return files.SyncDirectory(ParentDirectory(path));", "return absl::OkStatus();",
           ("//engine/io:io_test",)),
    Mutant("rename order", "engine/io/whole_file.cc",
           "absl::Status status = WriteDurably(files, temporary, pieces);\n"
           "  if (status.ok()) status = files.Rename(temporary, path);",
           "absl::Status status = WriteDurably(files, path, pieces);",
           ("//engine/io:io_test",)),
    Mutant("checkpoint CRC", "engine/job/checkpoint/checkpoint.cc",
           "contents.metadata[kTensorsCrc] != CrcOf(contents.tensors)", "false",
           ("//engine/job/checkpoint:checkpoint_test",)),
    Mutant("idempotent submit", "server/storage/job_store.cc",
           "if (request_id.empty()) return std::nullopt;", "return std::nullopt;",
           ("//server/storage:storage_test",)),
    Mutant("memory release", "engine/job/memory/memory_ledger.cc",
           "    ledger_->Subtract(*this);\n    if (!resting_)", "    if (!resting_)",
           ("//engine/job/memory:memory_test",)),
    Mutant("plan lease", "engine/plan/plan_store.cc",
           "return found != holders_.end() && found->second.leases > 0;",
           "return found != holders_.end() && found->second.leases > 1000;",
           ("//engine/plan:plan_test",)),
)


def copy_sources(folder: Path) -> None:
    """The tracked files as they are in the checkout."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, check=True,
                           capture_output=True).stdout
    subprocess.run(["tar", "--null", "-T", "-", "-cf", folder / "sources.tar"], cwd=_ROOT,
                   input=names, check=True)
    subprocess.run(["tar", "-xf", "sources.tar"], cwd=folder, check=True)


def is_noticed(folder: Path, mutant: Mutant) -> bool:
    source = folder / mutant.path
    text = source.read_text()
    if text.count(mutant.original) != 1:
        print(f"{mutant.name}: {mutant.path} does not hold, once: {mutant.original!r}")
        return False
    source.write_text(text.replace(mutant.original, mutant.replacement))
    try:
        done = subprocess.run(
            ["bazel", "test", f"--disk_cache={_CACHE}", "--test_output=errors", *mutant.tests],
            cwd=folder, check=False, capture_output=True, text=True)
    finally:
        source.write_text(text)
    if done.returncode not in (0, _TESTS_FAILED):
        print(done.stdout, done.stderr)
    return done.returncode == _TESTS_FAILED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="the name of one mutant")
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="hearth-mutants.") as name:
        folder = Path(name)
        copy_sources(folder)
        for mutant in MUTANTS:
            if options.only not in (None, mutant.name):
                continue
            noticed = is_noticed(folder, mutant)
            print(f"{mutant.name}: {'noticed' if noticed else 'NOT NOTICED'}", flush=True)
            passed += noticed
            failed += not noticed
        subprocess.run(["bazel", "shutdown"], cwd=folder, check=False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
