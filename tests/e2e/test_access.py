"""Who gets in: the Unix socket, tokens, TLS, roles, owners, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

import pytest

from daemon import HEARTH, HEARTHD, Daemon, Result, run, wait_for

pytest.importorskip("grpc", reason="grpcio is not installed")
sys.path.append(str(Path(__file__).parents[2] / "client/python"))

import grpc  # noqa: E402
from google.protobuf import message_factory  # noqa: E402

import hearth  # noqa: E402
from hearth.v1 import (access_pb2, admin_pb2, datasets_pb2, jobs_pb2, plans_pb2,  # noqa: E402
                       sweeps_pb2)

_METHODS = [method for module in (admin_pb2, datasets_pb2, jobs_pb2, plans_pb2, sweeps_pb2)
            for service in module.DESCRIPTOR.services_by_name.values()
            for method in service.methods]
_ROLES = {"nobody": 0, "viewer": access_pb2.VIEWER, "user": access_pb2.USER,
          "operator": access_pb2.OPERATOR}


def call(*arguments: str, code: Optional[int] = 0, **environment: str) -> Result:
    """The client, in a home of its own choice alone."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEARTH")}
    result = run([HEARTH, *arguments], env={**clean, "HOME": "/nonexistent", **environment})
    assert code is None or result.code == code, f"hearth {arguments} gave {result}"
    return result


class Guarded:
    """A daemon with a token of each role, made over its Unix socket."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.socket = f"unix:{daemon.data_dir}/hearth.sock"
        self.folder = folder
        for role in ("viewer", "user", "operator"):
            self.make_token(role, role)

    def token_file(self, name: str) -> Path:
        return self.folder / f"{name}.token"

    def secret(self, name: str) -> str:
        return self.token_file(name).read_text().strip()

    def make_token(self, name: str, role: str, *more: str) -> None:
        call("--server", self.socket, "admin", "token", "create", name, "--role", role,
             "--to", str(self.token_file(name)), *more)

    def call_as(self, name: str, *arguments: str, code: Optional[int] = 0) -> Result:
        return call("--server", self.daemon.address, "--token-file", str(self.token_file(name)),
                    *arguments, code=code)

    def audit(self) -> list[dict]:
        return [json.loads(line)
                for line in (self.daemon.data_dir / "audit.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, graph_folder) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    root = str(tmp_path_factory.getbasetemp())
    with contextlib.closing(Daemon(folder / "data", "--import-root", root,
                                   "--export-root", root)) as daemon:
        daemon.import_graph("planted", graph_folder)
        yield Guarded(daemon, folder)


# Roles.

@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize("method", _METHODS, ids=lambda method: method.full_name[10:])
def test_each_method_asks_for_its_role(guarded, method, role):
    least = method.GetOptions().Extensions[access_pb2.access].least_role
    assert least != access_pb2.ROLE_UNSPECIFIED
    metadata = ([] if role == "nobody"
                else [("authorization", f"Bearer {guarded.secret(role)}")])
    request = message_factory.GetMessageClass(method.input_type)()
    response = message_factory.GetMessageClass(method.output_type)
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        path = f"/{method.containing_service.full_name}/{method.name}"
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        remote = make(path, request_serializer=type(request).SerializeToString,
                      response_deserializer=response.FromString)
        code = grpc.StatusCode.OK
        try:
            answer = remote(request, metadata=metadata, timeout=60)
            if method.server_streaming:
                list(answer)
        except grpc.RpcError as error:
            code = error.code()
    if role == "nobody":
        assert code == grpc.StatusCode.UNAUTHENTICATED
    elif _ROLES[role] < least:
        assert code == grpc.StatusCode.PERMISSION_DENIED
    else:
        assert code not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
                            grpc.StatusCode.UNIMPLEMENTED)


@pytest.mark.parametrize("path", ["/grpc.health.v1.Health/Check", "/hearth.v1.Jobs/Nothing",
                                  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                  "/other.Service/Method"])
def test_nobody_may_call_anything_else(guarded, path):
    with grpc.insecure_channel(guarded.daemon.address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(path)(b"", timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_users_change_their_own_jobs_alone(guarded, other_folder):
    guarded.make_token("ann", "user")
    guarded.make_token("bob", "user")
    done = guarded.call_as("ann", "dataset", "import", "anns", "--format", "numpy", "--source",
                           str(other_folder), "--detach", "--output", "json").json
    job = done["id"]
    assert guarded.call_as("bob", "job", "show", job, "--output", "json").json["owner"] == \
        "token:ann"
    for command in ("cancel", "resume", "delete"):
        refused = guarded.call_as("bob", "job", command, job, code=1)
        assert "token:ann" in refused.err
    guarded.call_as("ann", "job", "cancel", job)
    guarded.call_as("operator", "job", "watch", job, code=None)
    guarded.call_as("viewer", "job", "delete", job, code=1)
    guarded.call_as("ann", "job", "delete", job)
    lines = [line for line in guarded.audit() if line["target"] == job]
    assert {"caller": "token:bob", "role": "USER", "method": "Jobs/CancelJob", "target": job,
            "result": "PERMISSION_DENIED"}.items() <= lines[1].items()
    assert [(line["method"], line["caller"]) for line in lines if line["result"] == "OK"] == [
        ("Jobs/SubmitJob", "token:ann"), ("Jobs/CancelJob", "token:ann"),
        ("Jobs/DeleteJob", "token:ann")]


def test_without_roots_only_operators_name_folders(tmp_path, graph_folder):
    """A job reads and writes with the rights of the daemon's user."""
    with contextlib.closing(Daemon(tmp_path / "data")) as daemon:
        guarded = Guarded(daemon, tmp_path)
        source = ("dataset", "import", "graph", "--format", "numpy", "--source", str(graph_folder))
        assert "--import-root" in guarded.call_as("user", *source, code=1).err
        guarded.call_as("operator", *source)
        export = ("dataset", "export", "graph", "--to", str(tmp_path / "copy"))
        assert "--export-root" in guarded.call_as("user", *export, code=1).err
        assert not (tmp_path / "copy").exists()


def test_sweeps_and_their_jobs_have_the_owner_of_the_sweep(guarded):
    guarded.make_token("eve", "user")
    sweep = guarded.call_as(
        "eve", "sweep", "submit", "--dataset", "planted", "--model", "sage", "--fanouts", "3,3",
        "--epochs", "1", "--algorithm", "grid", "--space", "lr=0.01,0.02", "--detach", "--output",
        "json").json["id"]
    for command in ("pause", "stop", "delete", "resume"):
        assert "token:eve" in guarded.call_as("user", "sweep", command, sweep, code=1).err
    jobs = guarded.call_as("viewer", "job", "list", "--output", "json").json["jobs"]
    owners = {job["owner"] for job in jobs if job["sweep"] == sweep}
    assert owners == {"token:eve"}
    guarded.call_as("eve", "sweep", "stop", sweep)


# Tokens.

def test_a_token_is_needed_over_tcp_and_never_over_the_socket(guarded):
    assert "--token-file" in call("--server", guarded.daemon.address, "status", code=1).err
    assert f"uid:{os.getuid()}, operator" in call("--server", guarded.socket, "status").out
    assert "token:viewer, viewer" in guarded.call_as("viewer", "status").out
    assert call("--server", guarded.daemon.address, "status",
                HEARTH_TOKEN_FILE=str(guarded.token_file("user"))).out


@pytest.mark.parametrize("contents", [
    "hearth_" + "0" * 64, "wrong", "x" * 100_000, "Bearer x", "ümlaut", "a b", "", "\n", "a\tb",
    "\x00"])
def test_wrong_tokens_are_refused_and_not_shown(guarded, tmp_path, contents):
    file = tmp_path / "token"
    file.write_text(contents)
    file.chmod(0o600)
    refused = call("--server", guarded.daemon.address, "--token-file", str(file), "status",
                   code=None)
    assert refused.code in (1, 2, 3)
    if len(contents) > 5:
        assert contents not in refused.err + guarded.daemon.log


def test_files_of_tokens_that_everybody_reads_are_refused(guarded, tmp_path):
    file = tmp_path / "token"
    file.write_text(guarded.secret("user"))
    file.chmod(0o644)
    refused = call("--server", guarded.daemon.address, "--token-file", str(file), "status", code=1)
    assert "chmod 600" in refused.err
    assert guarded.secret("user") not in refused.err
    missing = call("--server", guarded.daemon.address, "--token-file", str(tmp_path / "no"),
                   "status", code=1)
    assert str(tmp_path / "no") in missing.err


def test_a_token_is_not_sent_where_others_read_it(guarded):
    refused = call("--server", "192.0.2.1:7600", "--token-file", str(guarded.token_file("user")),
                   "status", code=1)
    assert "--ca" in refused.err


def test_a_revoked_token_is_worthless_at_once(guarded):
    guarded.make_token("gone", "operator")
    guarded.call_as("gone", "status")
    guarded.call_as("gone", "admin", "token", "revoke", "gone")
    assert "revoked" in guarded.call_as("gone", "status", code=1).err
    listed = call("--server", guarded.socket, "admin", "token", "list", "--output", "json").json
    token = next(one for one in listed["tokens"] if one["name"] == "gone")
    assert token["role"] == "OPERATOR" and token["revoke_time"] and token["last_use_time"]
    assert "hash" not in token and "secret" not in token


def test_an_expired_token_is_worthless(guarded):
    guarded.make_token("short", "user", "--expires-in", "1s")
    wait_for(lambda: "expired" in guarded.call_as("short", "status", code=None).err,
             "the token to expire")


def test_there_is_one_token_of_a_name(guarded):
    refused = call("--server", guarded.socket, "admin", "token", "create", "user", code=1)
    assert "user" in refused.err


@pytest.mark.parametrize("arguments", [
    ["a b"], ["a", "--role", "root"], ["a", "--expires-in", "never"], ["a", "--expires-in", "0s"],
    ["a", "--expires-in", "-1h"], []])
def test_tokens_with_bad_options_are_refused(guarded, arguments):
    call("--server", guarded.socket, "admin", "token", "create", *arguments, code=2)


def test_secrets_are_nowhere(guarded):
    secrets = [path.read_text().strip() for path in guarded.folder.glob("*.token")]
    assert len(secrets) >= 3
    kept = [path for path in guarded.daemon.data_dir.rglob("*") if path.is_file()]
    texts = [path.read_bytes() for path in [*kept, guarded.daemon.log_path]]
    texts.append(Path(f"/proc/{guarded.daemon.pid}/cmdline").read_bytes())
    for secret in secrets:
        assert not any(secret.removeprefix("hearth_").encode() in text for text in texts)


def test_the_python_client_has_tokens(guarded):
    with hearth.Client(guarded.daemon.address,
                       token_file=str(guarded.token_file("viewer"))) as client:
        assert client.jobs()
        with pytest.raises(hearth.HearthError) as refused:
            client.cancel("import-1")
    assert refused.value.code == grpc.StatusCode.PERMISSION_DENIED
    with hearth.Client(guarded.daemon.address, patience=1) as nobody:
        with pytest.raises(hearth.HearthError) as refused:
            nobody.jobs()
    assert refused.value.code == grpc.StatusCode.UNAUTHENTICATED


# The Unix socket.

def test_without_an_address_there_is_the_socket_alone(tmp_path):
    home = tmp_path / "home"
    process = subprocess.Popen([HEARTHD, "--data-dir", str(home), "--metrics-listen", "",
                                "--address-file", str(tmp_path / "ready")])
    try:
        wait_for((tmp_path / "ready").exists, "hearthd")
        socket = home / "hearth.sock"
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert json.loads((tmp_path / "ready").read_text())["grpc"] == f"unix:{socket}"
        assert str(process.pid) in call("status", HEARTH_HOME=str(home)).out
        process.kill()
        process.wait()
        assert socket.exists()
        assert "127.0.0.1:7600" in call("status", HEARTH_HOME=str(home), code=3).err
        (tmp_path / "ready").unlink()
        process = subprocess.Popen([HEARTHD, "--data-dir", str(home), "--metrics-listen", "",
                                    "--address-file", str(tmp_path / "ready")])
        wait_for((tmp_path / "ready").exists, "hearthd after kill -9")
        assert str(process.pid) in call("status", HEARTH_HOME=str(home)).out
        process.terminate()
        assert process.wait(60) == 0
        assert not socket.exists()
    finally:
        process.kill()
        process.wait()


def test_a_socket_whose_path_is_too_long_is_refused(tmp_path):
    deep = tmp_path / ("d" * 100)
    refused = run([HEARTHD, "--data-dir", str(deep), "--metrics-listen", ""])
    assert refused.code == 1
    assert "107" in refused.err and "--listen" in refused.err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("group", [None, "nogroup"])
def test_other_users_need_the_group(group):
    """As nobody, with a copy of the client that it may run."""
    folder = Path(tempfile.mkdtemp(prefix="hearth-"))
    folder.chmod(0o711)
    shutil.copy(HEARTH, folder / "hearth")
    flags = [] if group is None else ["--socket-group", group]
    try:
        with contextlib.closing(Daemon(folder / "data", *flags)) as daemon:
            command = [str(folder / "hearth"), "--server", f"unix:{daemon.data_dir}/hearth.sock"]
            as_nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
            if group is None:
                assert run([*command, "status"], **as_nobody).code == 3
                return
            assert "uid:65534, user" in run([*command, "status"], **as_nobody).out
            refused = run([*command, "admin", "token", "list"], **as_nobody)
            assert refused.code == 1 and "operator" in refused.err
            open_to_others = [path for path in daemon.data_dir.iterdir()
                              if path.name not in ("hearth.sock", "feed.sock")
                              and stat.S_IMODE(path.stat().st_mode) & 0o077]
            assert not open_to_others
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_however_many_users_come_the_daemons_own_gets_in():
    folder = Path(tempfile.mkdtemp(prefix="hearth-"))
    folder.chmod(0o711)
    try:
        with contextlib.closing(Daemon(folder / "data", "--socket-group", "nogroup")) as daemon:
            path = str(daemon.data_dir / "hearth.sock")
            # Begins to speak HTTP/2, says whether it is answered, and stays until it may go.
            connect = ("import socket, sys\n"
                       "connection = socket.socket(socket.AF_UNIX)\n"
                       "connection.connect(sys.argv[1])\n"
                       "connection.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'"
                       "                   b'\\0\\0\\0\\4\\0\\0\\0\\0\\0')\n"
                       "print(len(connection.recv(1)), flush=True)\n"
                       "sys.stdin.read()")
            users = [subprocess.Popen(["/usr/bin/python3", "-c", connect, path], user=user,
                                      group=65534, extra_groups=[], cwd="/", text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                     for user in range(2000, 2070)]
            answers = [user.stdout.readline().strip() for user in users]
            # Beside the daemon's own, which is root.
            assert sorted(answers) == ["0"] * 7 + ["1"] * 63
            assert "64 different callers have connected and not called yet" in daemon.log
            assert "uid:0, operator" in call("--server", f"unix:{path}", "status").out
            for user in users:
                user.communicate()
            # They have gone: others may come.
            wait_for(lambda: run(["/usr/bin/python3", "-c", connect, path], user=3000, group=65534,
                                 extra_groups=[], cwd="/", input="").out.strip() == "1",
                     "a door to be free")
    finally:
        shutil.rmtree(folder)


def test_an_unknown_group_is_refused(tmp_path):
    refused = run([HEARTHD, "--data-dir", str(tmp_path / "data"), "--socket-group", "no-such",
                   "--metrics-listen", ""])
    assert refused.code == 1 and "no-such" in refused.err


# TLS.

@pytest.fixture(scope="module")
def certs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make = ("admin", "certs", "--to", str(folder))
    call(*make, "--host", "127.0.0.1", "--host", "localhost")
    for role in ("viewer", "user", "operator"):
        call(*make, "--client", f"some-{role}", "--role", role)
    for name in ("ca.key", "server.key", "client-some-user.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory) -> Path:
    """Of an authority that nobody trusts."""
    folder = tmp_path_factory.mktemp("strangers")
    call("admin", "certs", "--to", str(folder), "--host", "127.0.0.1", "--client", "mallory",
         "--role", "operator")
    return folder


def tls_flags(certs: Path, *more: str) -> list[str]:
    return ["--tls-cert", str(certs / "server.pem"), "--tls-key", str(certs / "server.key"), *more]


@pytest.fixture(scope="module")
def mutual(tmp_path_factory, certs) -> Iterator[Daemon]:
    """On all interfaces, for clients with certificates."""
    folder = tmp_path_factory.mktemp("mutual")
    with contextlib.closing(Daemon(
            folder / "data", *tls_flags(certs, "--tls-client-ca", str(certs / "ca.pem")),
            "--import-root", str(folder), "--export-root", str(folder), listen="0.0.0.0:0")) as daemon:
        yield daemon


def server_of(daemon: Daemon) -> str:
    return "127.0.0.1:" + daemon.address.rsplit(":", 1)[1]


def identity(folder: Path, name: str) -> list[str]:
    return ["--cert", str(folder / f"{name}.pem"), "--key", str(folder / f"{name}.key")]


def test_a_certificate_tells_who_calls(mutual, certs):
    flags = ["--server", server_of(mutual), "--ca", str(certs / "ca.pem")]
    assert "certificate:some-viewer, viewer" in call(
        *flags, *identity(certs, "client-some-viewer"), "status").out
    refused = call(*flags, *identity(certs, "client-some-user"), "admin", "token", "create", "x",
                   code=1)
    assert "operator" in refused.err
    call(*flags, *identity(certs, "client-some-viewer"), "job", "cancel", "train-1", code=1)
    with hearth.Client(server_of(mutual), ca=str(certs / "ca.pem"),
                       cert=str(certs / "client-some-user.pem"),
                       key=str(certs / "client-some-user.key")) as client:
        assert not client.jobs()


# What keeps a stranger out, and words of the reason that it is given, in flags and in Python.
_STRANGERS = {
    "plain": "was not to be encrypted; give {}ca",
    "no certificate": "for a client's certificate",
    "a token alone": "A token in place of a certificate is not enough there",
    "strange certificate": "did not accept the client's certificate",
    "strange authority": "the daemon's certificate was not accepted",
    "certificate of the server": "did not accept the client's certificate",
    "certificate of the authority": "did not accept the client's certificate",
}


@pytest.mark.parametrize("what", _STRANGERS)
def test_strangers_do_not_get_through_mutual_tls(mutual, certs, strangers, tmp_path, what):
    token = tmp_path / "token"
    token.write_text("hearth_abc\n", encoding="utf-8")
    token.chmod(0o600)
    ca = {"ca": certs / "ca.pem"}

    def of(folder, name):
        return {"cert": folder / f"{name}.pem", "key": folder / f"{name}.key"}

    files = {"plain": {},
             "no certificate": ca,
             "a token alone": {**ca, "token_file": token},
             "strange certificate": {**ca, **of(strangers, "client-mallory")},
             "strange authority": {"ca": strangers / "ca.pem",
                                   **of(certs, "client-some-operator")},
             "certificate of the server": {**ca, **of(certs, "server")},
             "certificate of the authority": {**ca, **of(certs, "ca")}}[what]
    flags = [word for name, path in files.items()
             for word in (f"--{name.replace('_', '-')}", str(path))]
    refused = call("--server", server_of(mutual), *flags, "status", code=None)
    assert refused.code in (1, 3) and not refused.out
    assert _STRANGERS[what].format("--") in refused.err
    assert "Is the daemon running?" not in refused.err
    with hearth.Client(server_of(mutual), patience=0,
                       **{name: str(path) for name, path in files.items()}) as client:
        with pytest.raises(hearth.HearthError) as error:
            client.jobs()
    assert _STRANGERS[what].format("") in str(error.value)


def test_a_name_that_is_not_in_the_certificate_is_told(mutual, certs):
    server = server_of(mutual).replace("127.0.0.1", "127.0.0.2")
    refused = call("--server", server, "--ca", str(certs / "ca.pem"),
                   *identity(certs, "client-some-user"), "status", code=3)
    assert "the daemon's certificate was not accepted (IP address mismatch)" in refused.err
    doctor = call("--server", server, "--ca", str(certs / "ca.pem"),
                  *identity(certs, "client-some-user"), "doctor", "--output", "json", code=None)
    found = {one["check"]: one for one in doctor.json["findings"]}["daemon"]
    assert found["severity"] == "problem" and "TLS was refused" in found["value"]


def test_tls_where_there_is_none_is_told(daemon, certs):
    refused = call("--server", daemon.address, "--ca", str(certs / "ca.pem"), "status", code=3)
    assert "leave out --ca" in refused.err and "Is the daemon running?" not in refused.err
    with hearth.Client(daemon.address, ca=str(certs / "ca.pem"), patience=0) as client:
        with pytest.raises(hearth.Unavailable, match="leave out ca"):
            client.jobs()
    # Nobody listens: then TLS is not the matter.
    refused = call("--server", "127.0.0.1:1", "--ca", str(certs / "ca.pem"), "status", code=3)
    assert "Is the daemon running?" in refused.err and "TLS was refused" not in refused.err


@pytest.mark.parametrize("arguments", [
    ["--cert", "client-some-user.pem"], ["--key", "client-some-user.key"],
    ["--cert", "client-some-user.pem", "--key", "client-some-user.key"],
    ["--ca", "nothing.pem"], ["--ca", "ca.pem", "--cert", "ca.pem"]])
def test_files_that_do_not_go_together_are_refused(mutual, certs, arguments):
    paths = [word if word.startswith("--") else str(certs / word) for word in arguments]
    refused = call("--server", server_of(mutual), *paths, "status", code=None)
    assert refused.code in (1, 2) and refused.err


def test_over_tls_without_client_certificates_tokens_count(tmp_path, certs, strangers):
    data = tmp_path / "data"
    with contextlib.closing(Daemon(data)) as first:
        guarded = Guarded(first, tmp_path)
        first.stop()
    with contextlib.closing(Daemon(data, *tls_flags(certs), "--import-root", str(tmp_path),
                                   "--export-root", str(tmp_path), listen="0.0.0.0:0")) as daemon:
        server = ["--server", server_of(daemon)]
        ca = ["--ca", str(certs / "ca.pem")]
        token = ["--token-file", str(guarded.token_file("user"))]
        assert "token:user, user" in call(*server, *ca, *token, "status").out
        assert "--token-file" in call(*server, *ca, "status", code=1).err
        # A certificate that nobody asked for is none.
        call(*server, *ca, *identity(strangers, "client-mallory"), "status", code=1)
        call(*server, "--ca", str(strangers / "ca.pem"), *token, "status", code=3)
        call(*server, *token, "status", code=3)
        # The name in the certificate counts.
        call("--server", server_of(daemon).replace("127.0.0.1", "127.0.0.2"), *ca, *token,
             "status", code=3)
        with hearth.Client(server_of(daemon), ca=ca[1], token_file=token[1]) as client:
            assert not client.jobs()


def test_certificates_are_read_again(tmp_path, strangers):
    own = tmp_path / "certs"
    call("admin", "certs", "--to", str(own), "--host", "127.0.0.1", "--client", "op", "--role",
         "operator")
    flags = tls_flags(own, "--tls-client-ca", str(own / "ca.pem"))
    with contextlib.closing(Daemon(tmp_path / "data", *flags)) as daemon:
        as_op = ["--server", daemon.address, *identity(own, "client-op")]
        as_mallory = ["--server", daemon.address, "--ca", str(strangers / "ca.pem"),
                      *identity(strangers, "client-mallory"), "status"]
        old = tmp_path / "old.pem"
        shutil.copy(own / "ca.pem", old)
        call(*as_op, "--ca", str(old), "status")
        call(*as_mallory, code=3)
        for name in ("server.key", "server.pem", "ca.pem"):
            replacement = own / f"{name}.new"
            shutil.copy(strangers / name, replacement)
            replacement.chmod(0o600)
            replacement.rename(own / name)
        wait_for(lambda: call(*as_mallory, code=None).code == 0 or None, "the new certificates")
        call(*as_op, "--ca", str(old), "status", code=3)


# Starts that are refused.

@pytest.mark.parametrize("flags, word", [
    (["--listen", "0.0.0.0:0"], "--tls-cert"),
    (["--listen", "[::]:0"], "--tls-cert"),
    (["--listen", "192.0.2.1:7600"], "--tls-cert"),
    (["--listen", "127.0.0.2:0"], "--tls-cert"),
    (["--listen", "gpu-box:7600"], "HOST:PORT"),
    (["--listen", "0.0.0.0:0", "--tls-cert", "server.pem"], "--tls-key"),
    (["--listen", "0.0.0.0:0", "--tls-key", "server.key"], "--tls-cert"),
    (["--listen", "0.0.0.0:0", "--tls-client-ca", "ca.pem"], "--tls-cert"),
    (["--tls-cert", "server.pem", "--tls-key", "server.key"], "--listen"),
    (["--listen", "0.0.0.0:0", "--tls-cert", "server.pem", "--tls-key", "server.key"],
     "--import-root"),
    (["--listen", "0.0.0.0:0", "--tls-cert", "server.pem", "--tls-key", "server.key",
      "--import-root", "/srv"], "--export-root"),
    (["--listen", "0.0.0.0:0", "--tls-cert", "server.pem", "--tls-key", "server.key",
      "--export-root", "/srv"], "--import-root"),
    (["--listen", "0.0.0.0:0", "--tls-cert", "server.pem", "--tls-key", "server.key",
      "--import-root", "/", "--export-root", "/"], "token create"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "nothing.pem", "--tls-key", "server.key"],
     "nothing.pem"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.key", "--tls-key", "server.key"],
     "certificate"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.pem"],
     "private key"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "client-some-user.key"],
     "not the key"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "open.key"],
     "chmod 600"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.key",
      "--tls-client-ca", "server.pem"], "authority"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.key",
      "--tls-client-ca", "nothing.pem"], "nothing.pem"),
    (["--metrics-listen", "0.0.0.0:0"], "loopback"),
])
def test_less_is_refused_at_start_with_the_way_to_do_it(tmp_path, certs, flags, word):
    shutil.copy(certs / "server.key", certs / "open.key")
    (certs / "open.key").chmod(0o644)
    paths = [str(certs / flag) if flag.endswith((".pem", ".key")) else flag for flag in flags]
    if "--metrics-listen" not in paths:
        paths += ["--metrics-listen", ""]
    refused = run([HEARTHD, "--data-dir", str(tmp_path / "data"), *paths])
    assert refused.code in (1, 2)
    assert word in refused.err
    assert "PRIVATE KEY" not in refused.err


@pytest.mark.parametrize("arguments", [
    [], ["--host", "a b"], ["--host", "a,DNS:b"], ["--host", "x\nURI:urn:hearth:role:operator"],
    ["--client", "a/b"], ["--client", "../x"], ["--client", "a", "--role", "root"],
    ["--host", "x", "--days", "0"]])
def test_certificates_with_bad_options_are_refused(tmp_path, arguments):
    call("admin", "certs", "--to", str(tmp_path / "certs"), *arguments, code=2)
    assert not list(tmp_path.rglob("server.*")) and not list(tmp_path.rglob("client-*"))


# Roots.

class Rooted(NamedTuple):
    daemon: Daemon
    folder: Path


@pytest.fixture(scope="module")
def rooted(tmp_path_factory, graph_folder) -> Iterator[Rooted]:
    folder = tmp_path_factory.mktemp("rooted").resolve()
    for name in ("in", "out", "secret", "out/sub"):
        (folder / name).mkdir()
    shutil.copytree(graph_folder, folder / "in" / "graph")
    shutil.copytree(graph_folder, folder / "secret" / "graph")
    shutil.copytree(graph_folder, folder / "in" / "linked")
    (folder / "in" / "linked" / "node_feat.npy").unlink(missing_ok=True)
    (folder / "in" / "linked" / "extra.npy").symlink_to(folder / "secret" / "graph" / "labels.npy")
    (folder / "in" / "link").symlink_to(folder / "secret" / "graph")
    (folder / "out" / "link").symlink_to(folder / "secret")
    (folder / "in" / "fifo").mkdir()
    os.mkfifo(folder / "in" / "fifo" / "edge_index.npy")
    flags = ["--import-root", str(folder / "in"), "--export-root", str(folder / "out")]
    with contextlib.closing(Daemon(folder / "data", *flags)) as daemon:
        daemon.import_graph("planted", folder / "in" / "graph")
        yield Rooted(daemon, folder)


def test_below_roots_all_is_as_ever(rooted):
    daemon, out = rooted.daemon, rooted.folder / "out"
    daemon.hearth("dataset", "export", "planted", "--format", "numpy", "--to", str(out / "graph"))
    daemon.hearth("dataset", "generate", "--format", "numpy", "--to", str(out / "sub" / "made"),
                  "--nodes", "500", "--edges", "2000")
    job = daemon.json("train", "--dataset", "planted", "--model", "sage", "--fanouts", "3,3",
                      "--epochs", "1")["id"]
    daemon.hearth("export", job, "--to", str(out / "model"))
    daemon.hearth("admin", "backup", "--to", str(out / "backup"))
    mask = os.umask(0)
    os.umask(mask)
    for path in (out / "graph", out / "model", out / "sub" / "made"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o777 & ~mask
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
                   for file in path.rglob("*") if file.is_file())
    backup = out / "backup"
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077
                   for path in [backup, *backup.rglob("*")])


@pytest.mark.parametrize("source", [
    "secret/graph", "in/../secret/graph", "in/link", "in/linked", "in/link/labels.npy", "data",
    "data/datasets/planted", "in/none", "inner", "in/fifo", ""])
def test_imports_read_below_their_root_alone(rooted, source):
    refused = rooted.daemon.hearth("dataset", "import", "stolen", "--format", "numpy", "--source",
                                   str(rooted.folder) + "/" + source, code=None)
    assert refused.code in (1, 2)
    assert "stolen" not in rooted.daemon.hearth("dataset", "list").out


@pytest.mark.parametrize("destination", [
    "secret/made", "out/../secret/made", "out/link/made", "in/made", "made", "data/made",
    "out/../data/made", "outer/made", "out", "out/none/made", "/etc/hearth-made"])
@pytest.mark.parametrize("command", ["dataset export planted --format numpy",
                                     "dataset generate --format numpy --nodes 500 --edges 2000",
                                     "admin backup"])
def test_nothing_is_written_elsewhere(rooted, command, destination):
    path = destination if destination.startswith("/") else f"{rooted.folder}/{destination}"
    # The client makes paths plain, which hides the dots from the daemon.
    refused = rooted.daemon.hearth(*command.split(), "--to", path, code=None)
    assert refused.code in (1, 2), refused
    assert not any((rooted.folder / name).exists()
                   for name in ("secret/made", "in/made", "made", "data/made", "outer"))
    assert not Path("/etc/hearth-made").exists()


def test_a_link_that_comes_later_leads_nowhere(rooted):
    """A folder that was fine when the job was submitted is swapped before it runs."""
    daemon, folder = rooted.daemon, rooted.folder
    (folder / "out" / "swapped").mkdir()
    busy = ("--nodes", "200000", "--edges", "2000000", "--detach")
    blocker = [daemon.json("dataset", "generate", f"busy{i}", *busy)["id"] for i in range(4)]
    late = daemon.json("dataset", "export", "planted", "--format", "numpy", "--to",
                       str(folder / "out" / "swapped" / "graph"), "--detach")["id"]
    (folder / "out" / "swapped").rename(folder / "out" / "aside")
    (folder / "out" / "swapped").symlink_to(folder / "secret")
    daemon.wait_for_state(late, "SUCCEEDED", "FAILED")
    for job in blocker:
        daemon.wait_for_state(job, "SUCCEEDED", "FAILED")
    assert sorted(path.name for path in (folder / "secret").iterdir()) == ["graph"]


def test_a_root_that_is_missing_is_named(tmp_path):
    refused = run([HEARTHD, "--data-dir", str(tmp_path / "data"), "--metrics-listen", "",
                   "--import-root", str(tmp_path / "none")])
    assert refused.code == 1 and str(tmp_path / "none") in refused.err


# Contexts.

def test_contexts_name_daemons(guarded, tmp_path):
    home = {"HEARTH_CONTEXTS": str(tmp_path / "config" / "contexts.json")}
    call("context", "add", "lab", "--server", guarded.daemon.address, "--token-file",
         str(guarded.token_file("viewer")), **home)
    call("context", "add", "local", "--server", guarded.socket, **home)
    assert "token:viewer" in call("--context", "lab", "status", **home).out
    assert "token:viewer" in call("status", HEARTH_CONTEXT="lab", **home).out
    call("context", "use", "local", **home)
    assert f"uid:{os.getuid()}" in call("status", **home).out
    listed = call("context", "list", "--output", "json", **home).json
    assert [(one["name"], one["current"]) for one in listed] == [("lab", False), ("local", True)]
    assert guarded.secret("viewer") not in (tmp_path / "config" / "contexts.json").read_text()
    call("context", "use", **home)
    call("context", "remove", "local", **home)
    assert "local" in call("--context", "local", "status", code=1, **home).err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEARTH_CONTEXTS", home["HEARTH_CONTEXTS"])
        patch.delenv("HEARTH_SERVER", raising=False)
        with hearth.Client(context="lab") as client:
            assert client.jobs()


def test_a_context_shows_its_token_to_no_other_server(guarded, tmp_path):
    home = {"HEARTH_CONTEXTS": str(tmp_path / "contexts.json")}
    call("context", "add", "lab", "--server", guarded.socket, "--token-file",
         str(guarded.token_file("operator")), **home)
    call("context", "use", "lab", **home)
    assert "--token-file" in call("--server", guarded.daemon.address, "status", code=1, **home).err


@pytest.mark.parametrize("arguments, code", [
    (["context", "add", "a b", "--server", "127.0.0.1:1"], 2),
    (["context", "add", "x"], 2),
    (["context", "add", "x", "--server", "192.0.2.1:1", "--token-file", "/dev/null"], 1),
    (["context", "add", "x", "--server", "127.0.0.1:1", "--ca", "/nonexistent"], 1),
    (["context", "use", "nobody"], 1),
    (["context", "remove", "nobody"], 1),
    (["--context", "nobody", "status"], 1),
    (["--context", "x", "--server", "127.0.0.1:1", "status"], 2)])
def test_contexts_that_make_no_sense_are_refused(tmp_path, arguments, code):
    call(*arguments, code=code, HEARTH_CONTEXTS=str(tmp_path / "contexts.json"))


def test_a_damaged_file_of_contexts_is_named(tmp_path):
    (tmp_path / "contexts.json").write_text("{")
    refused = call("status", code=1, HEARTH_CONTEXTS=str(tmp_path / "contexts.json"))
    assert str(tmp_path / "contexts.json") in refused.err
