#!/usr/bin/env python3
"""Daemons that train one job together, on links of given rates, and what more of them would do.

Each daemon has a network namespace, a link whose rate tc limits, and one processor. In each turn,
one machine and then several train a job whose batches have as many seeds for each machine; figures
are medians over turns of ratios within a turn. Then the steps of up to --reckon machines are
reckoned: the step of one machine, the exchange of gradients (2 (N - 1) / N of their bytes each way)
by the link's rate, and its round trips. HEARTHD and HEARTH name the binaries. Needs root.

--pyg names the Python of an environment with PyG, which then trains the same model on the same graph
in each turn: a process in each namespace, on the same processor, with all features in its memory and
gradients by PyTorch's DDP over gloo. tests/bench/peers/run.sh --machines makes one.

Exit codes: 0 done, 1 a job failed, 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cluster_figures import Link, Measured, render_measured, render_reckoning, render_rival

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from machines import NamespaceDaemon, NoNamespaces, make_certificates, namespaces  # noqa: E402

_PYG_PEER = Path(__file__).resolve().parent / "peers/pyg_peer.py"
# tc's names of rates.
_LINKS = {"1gbit": Link("1 Gbit/s", 1e9), "10gbit": Link("10 Gbit/s", 1e10)}


class Job(NamedTuple):
    model: str
    hidden: int
    fanouts: str
    batch_size: int
    epochs: int
    strategy: str


def limit_links(names: list[str], rate: str) -> None:
    """Each namespace sends at most so much."""
    for name in names:
        subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "wire",
                        "root", "tbf", "rate", rate, "burst", "1mb", "latency", "50ms"],
                       check=True)


def bytes_sent(name: str) -> int:
    """By the interface of a namespace, headers included."""
    shown = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "wire"], check=True,
                           capture_output=True, text=True).stdout
    return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])


@contextlib.contextmanager
def daemons(folder: Path, names: list[str], graph: list[str]) -> Iterator[list[NamespaceDaemon]]:
    members = [f"host-{i}" for i in range(len(names))]
    make_certificates(folder, *members)
    lines = "".join(f"  {member}: 10.214.0.{i + 1}:7610\n" for i, member in enumerate(members))
    with contextlib.ExitStack() as started:
        made = []
        for i, (name, member) in enumerate(zip(names, members)):
            file = folder / f"{member}.yaml"
            file.write_text(f"name: {member}\nlisten: 10.214.0.{i + 1}:7610\n"
                            f"certificate: member-{member}.pem\nkey: member-{member}.key\n"
                            f"authority: ca.pem\nmembers:\n{lines}")
            one = NamespaceDaemon(name, folder / member, "--cluster", str(file),
                                  prefix=("taskset", "--cpu-list", str(i % (os.cpu_count() or 1))))
            made.append(started.enter_context(contextlib.closing(one)))
            one.json("dataset", "generate", "graph", *graph)
        yield made


def train(leader: NamespaceDaemon, names: list[str], machines: int, job: Job) -> Measured:
    before = [bytes_sent(name) for name in names]
    report = leader.json(
        "train", "--dataset", "graph", "--strategy", job.strategy, "--model", job.model, "--hidden",
        str(job.hidden), "--fanouts", job.fanouts, "--batch-size", str(job.batch_size * machines),
        "--epochs", str(job.epochs), "--train-threads", "1", "--samplers", "1", "--skip-test",
        "true", *(("--machines", str(machines)) if machines > 1 else ()))["report"]
    on_wire = sum(bytes_sent(name) - start for name, start in zip(names, before))
    epochs = report["epochs"][1:]  # The first warms caches.
    batches = int(epochs[0]["batches"])
    shares: list[dict[str, Any]] = report["machines"]
    return Measured(machines=machines, batch_size=job.batch_size * machines, batches=batches,
                    seconds=statistics.median(float(epoch["seconds"]) for epoch in epochs),
                    wire_bytes=on_wire,
                    link_bytes=sum(int(share["bytes_sent"]) for share in shares),
                    all_batches=batches * len(report["epochs"]))


def train_by_pyg(python: str, folder: Path, dataset: Path, names: list[str], machines: int,
                 job: Job) -> float:
    """Seconds of an epoch, in which all processes have seeds of as many batches."""
    reports = [folder / f"pyg-{rank}.json" for rank in range(machines)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "wire", "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(
        ["ip", "netns", "exec", names[rank], "taskset", "--cpu-list",
         str(rank % (os.cpu_count() or 1)), python, str(_PYG_PEER), "--dataset", str(dataset),
         "--features", "memory", "--cache-bytes", "0", "--model", "sage", "--fanouts", job.fanouts,
         "--batch-size", str(job.batch_size), "--epochs", str(job.epochs), "--hidden",
         str(job.hidden), "--workers", "0", "--precision", "fp32", "--ranks", str(machines),
         "--rank", str(rank), "--rendezvous", "tcp://10.214.0.1:29500", "--report", str(report)],
        env=environment) for rank, report in enumerate(reports)]
    codes = [one.wait() for one in running]
    assert codes == [0] * machines, f"PyG ended with {codes}"
    epochs = [json.loads(report.read_text())["epochs"][1:] for report in reports]
    return max(statistics.median(float(epoch["seconds"]) for epoch in of_rank)
               for of_rank in epochs)


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machines", default="1,2", help="numbers of machines; default 1,2")
    parser.add_argument("--links", default="1gbit,10gbit",
                        help=f"rates of links, of {', '.join(_LINKS)}; default both")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--reckon", type=int, default=64, help="machines reckoned, at most")
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=3_200_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--classes", type=int, default=172)
    parser.add_argument("--train-share", type=float, default=0.1)
    parser.add_argument("--model", default="sage")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--fanouts", default="10,10,10")
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds of each machine")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--strategy", default="memory")
    parser.add_argument("--pyg", help="Python of an environment with PyG, to compare with")
    options = parser.parse_args(arguments)
    unknown = [link for link in options.links.split(",") if link not in _LINKS]
    if unknown:
        parser.error(f"--links: no {unknown[0]}: there are {', '.join(_LINKS)}")
    if options.pyg and options.model != "sage":
        parser.error("--pyg: compares sage alone")
    if options.epochs < 2:
        parser.error("--epochs: at least 2: the first is not counted")
    return options


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    sizes = [int(size) for size in options.machines.split(",")]
    graph = ["--graph", "communities", "--nodes", str(options.nodes), "--edges", str(options.edges),
             "--dim", str(options.dim), "--classes", str(options.classes), "--train",
             str(options.train_share), "--valid", "0.0001", "--test", "0.0001", "--seed", "1"]
    job = Job(options.model, options.hidden, options.fanouts, options.batch_size, options.epochs,
              options.strategy)
    if max(sizes) > (os.cpu_count() or 1):
        print("more machines than processors: they share them, and the figures mean little",
              file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder, namespaces(max(sizes)) as names, \
                daemons(Path(folder), names, graph) as made:
            for rate in options.links.split(","):
                limit_links(names, rate)
                turns, rivals = [], []
                for _ in range(options.turns):
                    turns.append([train(made[0], names, size, job) for size in sizes])
                    if options.pyg:
                        dataset = made[0].data_dir / "datasets/graph"
                        rivals.append([train_by_pyg(options.pyg, Path(folder), dataset, names,
                                                    size, job) for size in sizes])
                print(render_measured(_LINKS[rate], turns), flush=True)
                print(render_reckoning(_LINKS[rate], turns, options.reckon), flush=True)
                if rivals:
                    print(render_rival("PyG with DDP", turns, rivals), flush=True)
    except (NoNamespaces, AssertionError, subprocess.CalledProcessError) as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
