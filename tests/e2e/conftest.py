"""Fixtures of the end-to-end tests, and their tiers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Iterator

import pytest

from daemon import Daemon
from graphs import Graph, planted_graph


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run what takes long (tier 2)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: takes long; run with --full only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    for item in items:
        if "full" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes long; run with --full"))


@pytest.fixture(scope="session")
def graph() -> Graph:
    return planted_graph()


@pytest.fixture(scope="session")
def graph_folder(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph.write(tmp_path_factory.mktemp("source") / "planted")


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons on data directories of their own; ends them with the test."""
    daemons: list[Daemon] = []

    def start(*flags: str) -> Daemon:
        daemons.append(Daemon(tmp_path / f"data{len(daemons)}", *flags))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture(scope="module")
def daemon(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests of a file that do not end it, with the dataset `planted`."""
    shared = Daemon(tmp_path_factory.mktemp("shared") / "data", "--max-running-jobs", "2")
    shared.import_graph("planted", graph_folder)
    yield shared
    shared.close()


@pytest.fixture
def pyg_logits(graph):
    """What PyTorch Geometric computes with an exported model, over all neighbors."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    sys.path.append(str(Path(__file__).parents[1] / "accuracy"))
    from pyg_load import load_and_compare

    def compute(folder, nodes):
        return load_and_compare(folder, {"edge_index": graph.edge_index,
                                         "node_feat": graph.node_feat, "nodes": nodes}).logits
    return compute
