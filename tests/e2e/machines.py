"""Daemons of one cluster, each with a copy of the graph `planted`."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Iterator

from daemon import HEARTH, Daemon, run, wait_for


def _free_ports(count: int) -> list[int]:
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


class Cluster:
    """Members host-a, host-b, ...; host-a leads what is submitted to it."""

    def __init__(self, folder: Path, size: int, graph_folder: Path,
                 flags: tuple[str, ...] = ()) -> None:
        self.names = [f"host-{chr(ord('a') + i)}" for i in range(size)]
        self.folder = folder
        make_certificates(folder, *self.names)
        self.addresses = dict(zip(self.names, (f"127.0.0.1:{port}" for port in _free_ports(size))))
        self.daemons: list[Daemon] = []
        with contextlib.ExitStack() as started:
            for name in self.names:
                daemon = Daemon(folder / name, "--cluster", str(self.file_of(name)), *flags)
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

    def close(self) -> None:
        self._started.close()


@contextlib.contextmanager
def cluster(folder: Path, size: int, graph_folder: Path,
            flags: tuple[str, ...] = ()) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(Cluster(folder, size, graph_folder, flags)) as one:
        yield one
