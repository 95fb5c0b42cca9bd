"""The notebooks of the Python client, cell by cell in a real kernel, with the real daemon."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from daemon import HEARTHD

NOTEBOOKS = Path(__file__).parents[2] / "client/python/notebooks"
CELL_SECONDS = 300  # A bound for a kernel that hangs, not a measure of speed.

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("grpc", reason="grpcio is not installed")

import hearth  # noqa: E402
from hearth.jobs import JobState  # noqa: E402


def texts_of(cell):
    """What a cell shows, by type of content."""
    shown = {"text/plain": "", "text/html": ""}
    for output in cell.outputs:
        if output.output_type == "stream":
            shown["text/plain"] += output.text
        for kind in shown:
            shown[kind] += output.get("data", {}).get(kind, "")
    return shown


@pytest.fixture
def cells_of(tmp_path, monkeypatch):
    """Runs a notebook; returns what its cells show, and all their text."""
    def run(file):
        folders = {"HOME": "home", "JUPYTER_DATA_DIR": "data", "JUPYTER_CONFIG_DIR": "config",
                   "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
        for name, folder in folders.items():
            monkeypatch.setenv(name, str(tmp_path / folder))
            (tmp_path / folder).mkdir()
        notebook = nbformat.read(NOTEBOOKS / file, as_version=4)
        nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3",
                                resources={"metadata": {"path": str(tmp_path)}}).execute()
        cells = [texts_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
        return cells, "\n".join(cell["text/plain"] for cell in cells)
    return run


@pytest.fixture
def execute(start_daemon, cells_of, monkeypatch):
    def run(planetoid):
        daemon = start_daemon()
        monkeypatch.setenv("HEARTH_SERVER", daemon.address)
        monkeypatch.setenv("HEARTH_PLANETOID_RAW", planetoid)
        return daemon, *cells_of("first_job.ipynb")
    return run


def check(daemon, cells, text):
    jobs = daemon.json("job", "list")["jobs"]
    assert {job["state"] for job in jobs} == {"SUCCEEDED"}
    (first,) = (job for job in jobs if job["spec"]["train"] and not job["sweep"])
    assert f"on the test nodes: {first['report']['test_metric']:.3f}" in text
    (sweep,) = daemon.json("sweep", "list")["sweeps"]
    assert f"{sweep['best_test_metric']:.3f} in the test" in text
    assert f"{first['id']}: epoch 5: loss" in text
    pages = [cell["text/html"] for cell in cells if cell["text/html"]]
    assert len(pages) == 6 and all("<table" in page for page in pages)
    assert first["spec"]["train"]["data"]["dataset"] in pages[1]
    assert "starved_seconds" in pages[4] and "rank" in pages[5]
    return sweep["best_test_metric"]


def check_pyg(text, expected):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    (accuracy,) = re.findall(r"with all neighbors: ([0-9.]+)", text)
    # A sample of ten neighbors against all of them.
    assert abs(float(accuracy) - expected) < 0.1


def test_the_notebook_with_a_graph_that_is_made_up(execute):
    daemon, cells, text = execute("")
    assert "a graph is made up instead" in text
    check_pyg(text, check(daemon, cells, text))


def test_the_notebook_with_cora(execute):
    planetoid = os.environ.get("HEARTH_PLANETOID_RAW", "")
    if not (Path(planetoid) / "ind.cora.graph").exists():
        pytest.skip("HEARTH_PLANETOID_RAW does not name a folder with ind.cora.*")
    daemon, cells, text = execute(planetoid)
    assert "made up" not in text
    check_pyg(text, check(daemon, cells, text))


@pytest.mark.parametrize("given", [False, True])
def test_the_notebook_with_a_model_of_ones_own(cells_of, graph_folder, tmp_path, monkeypatch,
                                               given):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    monkeypatch.setenv("HEARTHD", HEARTHD)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("HEARTH_SERVER", raising=False)
    monkeypatch.setenv("HEARTH_GRAPH", str(graph_folder) if given else "")
    cells, text = cells_of("own_model.ipynb")
    assert ("a graph is made up" in text) != given
    assert "Data(x=[" in text and "epoch 5: loss" in text and "FeedReport(" in text
    (accuracy,) = re.findall(r"on the test nodes: ([0-9.]+)", text)
    # Of four classes; neighbors tell them.
    assert float(accuracy) > 0.6
    with hearth.PrivateDaemon() as daemon, daemon.client() as client:
        assert {job.state for job in client.jobs()} == {JobState.SUCCEEDED}


@pytest.mark.parametrize("name", [path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))])
def test_the_notebook_is_kept_without_results(name):
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None
                        for cell in code)
