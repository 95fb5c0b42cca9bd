"""The package from the tree, and a daemon with answers of the test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))
from make_protos import use_tree  # noqa: E402

use_tree()


@pytest.fixture
def daemon() -> Iterator["FakeDaemon"]:  # noqa: F821
    pytest.importorskip("grpc", reason="grpcio is not installed")
    from fake_daemon import FakeDaemon
    fake = FakeDaemon()
    yield fake
    fake.stop()
