"""Choice of the daemon and of the credentials for it."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

import hearth  # noqa: E402
from hearth.servers import choose, default_address, is_local  # noqa: E402

_VARIABLES = ("HEARTH_SERVER", "HEARTH_CONTEXT", "HEARTH_CA", "HEARTH_CERT", "HEARTH_KEY",
              "HEARTH_TOKEN_FILE", "HEARTH_HOME", "XDG_CONFIG_HOME")


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEARTH_CONTEXTS", str(tmp_path / "contexts.json"))
    return tmp_path


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("swordfish\nmore\n")
    path.chmod(0o600)
    return str(path)


def write_contexts(home, contexts, current=""):
    (home / "contexts.json").write_text(json.dumps({"current": current, "contexts": contexts}))


def test_the_socket_is_taken_where_somebody_listens(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # Its path must be short.
        monkeypatch.setenv("HEARTH_HOME", folder)
        assert default_address() == "127.0.0.1:7600"
        path = Path(folder) / "hearth.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            assert default_address() == "127.0.0.1:7600"
            listener.listen()
            assert default_address() == f"unix:{path}"
        assert default_address() == "127.0.0.1:7600"
    monkeypatch.setenv("HEARTH_HOME", "/" + "x" * 200)
    assert default_address() == "127.0.0.1:7600"


def test_a_token_is_read_and_not_shown(token):
    server = choose("127.0.0.1:1", token_file=token)
    assert server.metadata == (("authorization", "Bearer swordfish"),)
    assert "swordfish" not in repr(server)


@pytest.mark.parametrize("contents", ["", "\n", "sword fish", "swordfish\t", "schwertfisch\xfc"])
def test_what_is_no_token_is_refused_and_not_shown(token, contents):
    Path(token).write_text(contents, encoding="utf-8")
    with pytest.raises(hearth.HearthError) as refused:
        choose("127.0.0.1:1", token_file=token)
    assert refused.value.field == "token_file"
    assert "fish" not in str(refused.value)


def test_a_token_that_everybody_reads_is_refused(token):
    Path(token).chmod(0o644)
    with pytest.raises(hearth.HearthError, match="chmod 600"):
        choose("127.0.0.1:1", token_file=token)


@pytest.mark.parametrize("server", ["192.0.2.1:1", "gpu-box:1", "127.0.0.1.example.org:1",
                                    "localhost.example.org:1", "dns:127.0.0.1:1",
                                    "ipv4:127.0.0.1:1,192.0.2.1:1", "unix:/a,/b"])
def test_a_token_is_not_sent_in_the_clear(server, token):
    assert not is_local(server)
    with pytest.raises(hearth.HearthError, match="give ca"):
        choose(server, token_file=token)


def test_a_token_is_not_sent_to_an_address_that_nobody_gave(token, monkeypatch):
    assert choose().address == "127.0.0.1:7600"
    with pytest.raises(hearth.HearthError, match="127.0.0.1:7600") as refused:
        choose(token_file=token)
    assert refused.value.field == "token_file"
    monkeypatch.setenv("HEARTH_TOKEN_FILE", token)
    with pytest.raises(hearth.HearthError):
        choose()
    assert choose("127.0.0.1:7600").metadata


@pytest.mark.parametrize("files", [{"cert": "x"}, {"key": "x"}, {"cert": "x", "key": "x"},
                                   {"ca": "/nonexistent"}, {"ca": "x", "cert": "x"}])
def test_files_that_do_not_go_together_are_refused(files, tmp_path):
    (tmp_path / "x").write_text("not PEM")
    paths = {name: str(tmp_path / path) for name, path in files.items()}
    with pytest.raises(hearth.HearthError):
        choose("127.0.0.1:1", **paths)


def test_contexts_are_those_of_the_command_line(home, token, monkeypatch):
    write_contexts(home, {"lab": {"server": "127.0.0.1:7", "token-file": token},
                          "other": {"server": "unix:/d/hearth.sock"}}, "lab")
    assert choose().address == "127.0.0.1:7" and choose().metadata
    assert choose(context="other").address == "unix:/d/hearth.sock"
    monkeypatch.setenv("HEARTH_CONTEXT", "other")
    assert choose().address == "unix:/d/hearth.sock"
    # The files of a context are not shown to another server.
    assert choose("127.0.0.1:8").metadata == ()
    monkeypatch.setenv("HEARTH_SERVER", "127.0.0.1:9")
    assert choose() == hearth.servers.Server("127.0.0.1:9")
    with pytest.raises(hearth.HearthError):
        choose("127.0.0.1:8", context="lab")
    with pytest.raises(hearth.HearthError, match="nobody"):
        choose(context="nobody")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"contexts": 1, "current": "x"}'])
def test_damaged_contexts_are_named(home, text):
    (home / "contexts.json").write_text(text)
    with pytest.raises(hearth.HearthError, match="contexts.json"):
        choose()
