"""The same model trained by the daemon and by PyG over hearth.torch's batches: equal losses and
parameters, and equal accuracy on the test nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[1] / "accuracy"))

from torch_geometric.nn import GCNConv  # noqa: E402
from torch_geometric.utils import degree  # noqa: E402

import hearth  # noqa: E402
import hearth.torch  # noqa: E402
from pyg_load import load_model  # noqa: E402
from pyg_models import Model  # noqa: E402

STEPS = 50
LEARNING_RATE = 0.01
FANOUTS = [5, 4]
MODELS = ("sage", "gcn", "gat", "gatv2", "gin")
# Rounding alone. Adam makes a whole step of a tiny gradient too, whose sign rounding may turn, so
# that parameters may differ by more than losses.
LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 1e-3


class Gcn(Model):
    """The stack of GCNConv, normalized as the daemon does: by in-degrees in the whole graph, and
    the sampled neighbors of a node count for all that it has."""

    def __init__(self, config):
        super().__init__(config)
        for conv in self.convs:
            conv.normalize = conv.add_self_loops = False

    def forward(self, x, edge_index, in_degrees):
        for i, conv in enumerate(self.convs):
            assert isinstance(conv, GCNConv)
            x = conv(x.relu() if i else x, *_normalized(edge_index, in_degrees))
        return x


def _normalized(edge_index, in_degrees):
    """Edges and self loops with their weights."""
    sources, destinations = edge_index
    all_of, drawn = in_degrees.float(), degree(destinations, len(in_degrees))
    scale = (all_of + 1).rsqrt()
    weights = scale[sources] * scale[destinations] * (all_of / drawn.clamp(min=1))[destinations]
    loops = torch.arange(len(in_degrees))
    return (torch.cat([edge_index, loops.expand(2, -1)], dim=1),
            torch.cat([weights, scale.square()]))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Idle threads of torch's would spin on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def client(daemon):
    with hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as made:
        yield made


def options_of(batch_size, epochs):
    """Of a train job and a feed with the same batches."""
    return {"dataset": "planted", "sampler": "subgraph", "fanouts": FANOUTS,
            "batch_size": batch_size, "distinct_epochs": epochs, "data_seed": 3}


def train(client, model, options, folder, *, epochs, lr):
    """Trains in the daemon; returns its report and the model that it exported."""
    job = client.submit("train", options, model=model, hidden=32, epochs=epochs, lr=lr, dropout=0.0,
                        precision="fp32", model_seed=7)
    report = client.result(job.id)
    client.export(job.id, str(folder))
    return report, as_own(load_model(folder))


def as_own(model):
    """The model as it trains on batches."""
    own = Gcn(model.config) if model.config.model == "gcn" else model
    own.load_state_dict(model.state_dict())
    return own.train()


def new_loader(client, options, split="train"):
    rest = {name: value for name, value in options.items() if name != "fanouts"}
    return hearth.torch.NeighborLoader(client, num_neighbors=options["fanouts"], split=split,
                                       **rest)


def scores(model, batch):
    """Of the seeds."""
    degrees = [batch.in_degrees] if isinstance(model, Gcn) else []
    return model(batch.x, batch.edge_index, *degrees)[:batch.batch_size]


def train_own(model, loader, epochs):
    """The usual loop over the loader; returns the mean losses of the epochs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    means = []
    for _ in range(epochs):
        total = seeds = 0
        for batch in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(scores(model, batch), batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.batch_size
            seeds += batch.batch_size
        means.append(total / seeds)
    return means


@torch.no_grad()
def accuracy(model, loader):
    right = [int((scores(model, batch).argmax(1) == batch.y).sum()) for batch in loader]
    return sum(right) / len(loader.dataset)


# An epoch of one batch: its mean loss is that of the step. Of six: their order counts, too.
@pytest.mark.parametrize(("model", "batch_size", "epochs"), [
    *((model, 1800, STEPS) for model in MODELS), ("sage", 300, 9)],
    ids=[*MODELS, "sage-in-six-batches"])
def test_pyg_trains_as_the_daemon_does(client, tmp_path, model, batch_size, epochs):
    options = options_of(batch_size, epochs)
    # With steps too short to change a number, a job exports its initial parameters.
    _, own = train(client, model, options, tmp_path / "initial", epochs=1, lr=1e-30)
    report, expected = train(client, model, options, tmp_path / "trained", epochs=epochs,
                             lr=LEARNING_RATE)
    with new_loader(client, options) as loader:
        losses = train_own(own, loader, epochs)
    assert losses == pytest.approx([epoch.loss for epoch in report.epochs], abs=LOSS_TOLERANCE)
    assert losses[-1] < 0.7 * losses[0]
    torch.testing.assert_close(dict(own.named_parameters()), dict(expected.named_parameters()),
                               rtol=0, atol=PARAMETER_TOLERANCE)
    # The daemon's parameters, on the test nodes' batches.
    with new_loader(client, options, split="test") as loader:
        assert accuracy(expected.eval(), loader) == pytest.approx(report.test_metric, abs=1e-9)
