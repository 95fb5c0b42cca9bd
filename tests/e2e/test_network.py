"""A daemon and its user on two machines: network namespaces that share a wire and no folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np
import pytest

from daemon import HEARTH, PATIENCE_SECONDS, Daemon, Result, run, wait_for

sys.path.append(str(Path(__file__).parents[2] / "client/python"))

_ADDRESSES = ("10.213.0.1", "10.213.0.2")
# All neighbors are taken, so that the figures are those of the whole graph.
_JOB = ("train", "--dataset", "planted", "--strategy", "mmap", "--model", "sage",
        "--fanouts", "-1,-1,-1", "--hidden", "64", "--batch-size", "32", "--epochs", "6",
        "--lr", "0.003", "--dropout", "0.2", "--seed", "5", "--checkpoint-every", "10")


def inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[str, str]]:
    """Of the daemon and of its user."""
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (Debian: iproute2)")
    names = f"hearth-daemon-{os.getpid()}", f"hearth-user-{os.getpid()}"
    with contextlib.ExitStack() as made:
        for name in names:
            added = run(["ip", "netns", "add", name])
            if added.code == 0:
                made.callback(subprocess.run, ["ip", "netns", "delete", name], check=True)
            entered = run(inside(name, "unshare", "--mount", "true"))
            if added.code != 0 or entered.code != 0:
                pytest.skip(f"no network namespace here: {added.err}{entered.err}")
        wire = ["ip", "link", "add", "wire", "netns", names[0], "type", "veth", "peer", "name",
                "wire", "netns", names[1]]
        subprocess.run(wire, check=True)
        for name, address in zip(names, _ADDRESSES):
            for command in (("address", "add", f"{address}/30", "dev", "wire"),
                            ("link", "set", "wire", "up"), ("link", "set", "lo", "up")):
                subprocess.run(["ip", "-n", name, *command], check=True)
        yield names


class User:
    """Runs the client in its namespace, in a home of its own, without the daemon's folder."""

    def __init__(self, namespace: str, home: Path, hidden: Path) -> None:
        self.home = home
        self._namespace = namespace
        self._hidden = hidden

    def command(self, *arguments: str) -> list[str]:
        hide = 'mount -t tmpfs none "$0"; exec "$@"'
        return inside(self._namespace, "unshare", "--mount", "sh", "-ec", hide, str(self._hidden),
                      HEARTH, *arguments)

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("HEARTH", "XDG"))}
        return {**clean, "HOME": str(self.home)}

    def __call__(self, *arguments: str) -> Result:
        done = run(self.command(*arguments), env=self.environment, cwd=self.home)
        assert done.code == 0, f"hearth {arguments} gave {done}"
        return done

    def begin(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(self.command(*arguments), env=self.environment, cwd=self.home,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Trained(NamedTuple):
    report: dict
    watched: Result
    user: User
    model: Path


@pytest.fixture(scope="module")
def trained(namespaces, graph_folder, tmp_path_factory) -> Iterator[Trained]:
    """A graph of the user's that is brought to the daemon and trained on; the job is watched
    through a kill of the daemon, and its model fetched."""
    of_daemon, of_user = namespaces
    host = _ADDRESSES[0]
    machine, home = tmp_path_factory.mktemp("machine"), tmp_path_factory.mktemp("home")
    subprocess.run([HEARTH, "admin", "certs", "--to", machine / "certs", "--host", host],
                   check=True, capture_output=True)

    class Apart(Daemon):
        prefix = ("ip", "netns", "exec", of_daemon)

    # A daemon that has no token yet does not listen where others can reach it.
    with contextlib.closing(Daemon(machine / "data", listen="")) as daemon:
        subprocess.run([HEARTH, "--server", f"unix:{daemon.data_dir}/hearth.sock", "admin",
                        "token", "create", "ann", "--role", "user", "--to", home / "token"],
                       check=True, capture_output=True)
        daemon.stop()
    shutil.copy(machine / "certs/ca.pem", home)
    with contextlib.closing(Apart(
            machine / "data", "--tls-cert", str(machine / "certs/server.pem"),
            "--tls-key", str(machine / "certs/server.key"), "--import-root", str(machine),
            "--export-root", str(machine), listen=f"{host}:0")) as daemon:
        user = User(of_user, home, machine)
        user("context", "add", "away", "--server", daemon.address, "--ca", str(home / "ca.pem"),
             "--token-file", str(home / "token"))
        user("context", "use", "away")
        user("dataset", "upload", "planted", "--source", str(graph_folder))
        job = user(*_JOB, "--detach", "--output", "json").json["id"]
        watch = user.begin("job", "watch", job)
        with watch:
            try:
                wait_for(lambda: user("job", "show", job, "--output", "json").json["report"]
                         ["epochs"], "the first epoch")
                daemon.kill()
                daemon.start()
                out, err = watch.communicate(timeout=PATIENCE_SECONDS)
            finally:
                watch.kill()
        user("job", "download", job, "--to", str(home / "model"))
        shown = user("job", "show", job, "--output", "json").json
        yield Trained(shown["report"], Result(watch.returncode, out, err), user, home / "model")


def test_a_job_is_watched_through_a_restart_over_the_network(trained):
    assert trained.watched.code == 0, trained.watched
    assert "test accuracy" in trained.watched.out
    assert trained.report["resumes"] == 1
    assert "epoch 6" in trained.watched.err


def test_without_the_token_or_the_authority_nobody_gets_in(trained):
    server = trained.user("context", "list", "--output", "json").json[0]["server"]
    ca = str(trained.user.home / "ca.pem")
    for flags, words in ((("--ca", ca), "token"), ((), "")):
        refused = run(trained.user.command("--server", server, *flags, "status"),
                      env=trained.user.environment)
        assert refused.code != 0 and words in refused.err


def test_the_model_that_came_over_the_network_has_the_reported_accuracy(trained, graph):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    import hearth.pyg
    module = hearth.pyg.load_into(nn.GraphSAGE(32, 64, 3, 4), trained.model).eval()
    with torch.no_grad():
        scores = module(torch.from_numpy(graph.node_feat), torch.from_numpy(graph.edge_index))
    nodes = graph.test_idx
    right = np.count_nonzero(scores.argmax(1).numpy()[nodes] == graph.node_label[nodes])
    # Sums in another order may turn a tie.
    assert abs(right - trained.report["test_metric"] * len(nodes)) <= 1
