"""Daemons of one cluster, each with a copy of the graph `planted`."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Iterator, Optional

from daemon import HEARTH, Daemon, run, wait_for


class NoNamespaces(Exception):
    """Why there can be no network namespaces here."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at present."""
    with contextlib.ExitStack() as open_sockets:
        ports = []
        for _ in range(count):
            one = open_sockets.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
        return ports


def make_certificates(folder: Path, *members: str) -> None:
    for member in members:
        made = run([HEARTH, "admin", "certs", "--to", str(folder), "--member", member])
        assert made.code == 0, made


class NamespaceDaemon(Daemon):
    """In a network namespace of its own. Clients come by its Unix socket, for which namespaces do
    not count."""

    def __init__(self, namespace: str, data_dir: Path, *flags: str,
                 prefix: tuple[str, ...] = ()) -> None:
        self.prefix = ("ip", "netns", "exec", namespace, *prefix)
        super().__init__(data_dir, *flags)

    @property
    def address(self) -> str:
        return f"unix:{self.data_dir}/hearth.sock"


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[str]]:
    """Network namespaces with the addresses 10.214.0.1, ..., joined by a switch. Cut one off by
    `cut`."""
    if shutil.which("ip") is None:
        raise NoNamespaces("ip is not installed (Debian: iproute2)")
    switch = f"hearth-switch-{os.getpid()}"
    names = [f"hearth-{i}-{os.getpid()}" for i in range(count)]
    with contextlib.ExitStack() as made:
        for name in (switch, *names):
            added = run(["ip", "netns", "add", name])
            if added.code != 0:
                raise NoNamespaces(f"no network namespace here: {added.err}")
            made.callback(subprocess.run, ["ip", "netns", "delete", name], check=True)

        def ip(namespace: str, *words: str) -> None:
            subprocess.run(["ip", "-n", namespace, *words], check=True)

        ip(switch, "link", "add", "switch", "type", "bridge")
        ip(switch, "link", "set", "switch", "up")
        for i, name in enumerate(names):
            ip(switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "wire", "netns",
               name)
            ip(switch, "link", "set", f"port{i}", "master", "switch", "up")
            ip(name, "address", "add", f"10.214.0.{i + 1}/24", "dev", "wire")
            ip(name, "link", "set", "wire", "up")
            ip(name, "link", "set", "lo", "up")
        yield names


@contextlib.contextmanager
def cut(namespace: str) -> Iterator[None]:
    """All packets to and from a namespace are lost, and nobody is told."""
    def route(*words: str) -> None:
        subprocess.run(["ip", "-n", namespace, "route", *words], check=True)

    network = "10.214.0.0/24"
    route("del", network, "dev", "wire")
    route("add", "blackhole", network)
    try:
        yield
    finally:
        route("del", "blackhole", network)
        route("add", network, "dev", "wire")


class Cluster:
    """Members host-a, host-b, ...; host-a leads what is submitted to it. `inside`: their network
    namespaces."""

    def __init__(self, folder: Path, size: int, graph_folder: Path,
                 flags: tuple[str, ...] = (), inside: Optional[list[str]] = None) -> None:
        self.names = [f"host-{chr(ord('a') + i)}" for i in range(size)]
        self.folder = folder
        make_certificates(folder, *self.names)
        addresses = ([f"10.214.0.{i + 1}:7610" for i in range(size)] if inside else
                     [f"127.0.0.1:{port}" for port in free_ports(size)])
        self.addresses = dict(zip(self.names, addresses))
        self.daemons: list[Daemon] = []
        with contextlib.ExitStack() as started:
            for i, name in enumerate(self.names):
                options = ("--cluster", str(self.file_of(name)), *flags)
                daemon = (NamespaceDaemon(inside[i], folder / name, *options) if inside else
                          Daemon(folder / name, *options))
                self.daemons.append(started.enter_context(contextlib.closing(daemon)))
                daemon.import_graph("planted", graph_folder)
            self._started = started.pop_all()

    def file_of(self, name: str) -> Path:
        """The file of --cluster of one member."""
        file = self.folder / f"{name}.yaml"
        members = "".join(f"  {other}: {address}\n" for other, address in self.addresses.items())
        file.write_text(f"name: {name}\nlisten: {self.addresses[name]}\n"
                        f"certificate: member-{name}.pem\nkey: member-{name}.key\n"
                        f"authority: ca.pem\nmembers:\n{members}")
        return file

    @property
    def leader(self) -> Daemon:
        return self.daemons[0]

    def rank_jobs(self, daemon: Daemon) -> list[dict]:
        return [job for job in daemon.json("job", "list")["jobs"] if job["id"].startswith("rank-")]

    def wait_for_rank(self, daemon: Daemon, *states: str) -> dict:
        """The job of the member's rank, once it is in one of the states."""
        return wait_for(lambda: next((job for job in self.rank_jobs(daemon)
                                      if job["state"] in states), None), f"a rank in {states}")

    def wait_for_batches_of(self, job: str, rank: int, batches: int) -> None:
        """Waits until a rank of a running job has trained so many batches of an epoch."""
        def has_trained() -> bool:
            machines = self.leader.json("job", "show", job)["machines"]
            return len(machines) > rank and int(machines[rank]["done"]) >= batches
        wait_for(has_trained, f"{batches} batches of rank {rank}")

    def close(self) -> None:
        self._started.close()


@contextlib.contextmanager
def cluster(folder: Path, size: int, graph_folder: Path, flags: tuple[str, ...] = (),
            inside: Optional[list[str]] = None) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(Cluster(folder, size, graph_folder, flags, inside)) as one:
        yield one
