"""Fixtures of the end-to-end tests, and their tiers."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import pytest

from daemon import Daemon
from graphs import Graph, planted_graph
from heterographs import planted_heterograph
from jobs import LONG

sys.path.append(str(Path(__file__).parents[2] / "client/python"))
from make_protos import use_tree  # noqa: E402

use_tree()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", metavar="PART", help="run this part of tier 2 in place of tier 1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full(part): takes long; run with --full PART only")


def part_of(item: pytest.Item) -> Optional[str]:
    """The part of tier 2 that a test belongs to, or None: tier 1."""
    marker = item.get_closest_marker("full")
    return marker.args[0] if marker else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--full")
    config.hook.pytest_deselected(items=[item for item in items if part_of(item) != wanted])
    items[:] = [item for item in items if part_of(item) == wanted]


_TOLD = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Shows a line at the end of the run, whatever becomes of the test."""
    lines = request.config.stash.setdefault(_TOLD, [])
    return lambda line: lines.append(f"{request.node.name}: {line}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter,
                            config: pytest.Config) -> None:
    for line in config.stash.get(_TOLD, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def graph() -> Graph:
    return planted_graph()


@pytest.fixture(scope="session")
def graph_folder(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph.write(tmp_path_factory.mktemp("source") / "planted")


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough that its import is met in the middle: 25 MB of features."""
    other = planted_graph(num_nodes=50_000, dim=128, degree=10, seed=3)
    return other.write(tmp_path_factory.mktemp("other") / "graph")


@pytest.fixture(scope="session")
def typed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A heterograph, as a GraphBolt folder."""
    return planted_heterograph().write(tmp_path_factory.mktemp("typed") / "graph")


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons on data directories of their own; ends them with the test."""
    started = 0
    with contextlib.ExitStack() as daemons:
        def start(*flags: str) -> Daemon:
            nonlocal started
            daemon = Daemon(tmp_path / f"data{started}", *flags)
            started += 1
            return daemons.enter_context(contextlib.closing(daemon))

        yield start


@pytest.fixture(scope="module")
def daemon(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests of a file that do not end it, with the dataset `planted`."""
    data_dir = tmp_path_factory.mktemp("shared") / "data"
    with contextlib.closing(Daemon(data_dir, "--max-running-jobs", "2")) as shared:
        shared.import_graph("planted", graph_folder)
        yield shared


@pytest.fixture(scope="session")
def undisturbed(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of the job LONG that nobody disturbed."""
    data_dir = tmp_path_factory.mktemp("undisturbed") / "data"
    with contextlib.closing(Daemon(data_dir)) as alone:
        alone.import_graph("planted", graph_folder)
        return alone.json(*LONG)["report"]


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
