"""Choice of the daemon and of the credentials for it: addresses, contexts, certificates,
tokens."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import grpc

from hearth.errors import HearthError, invalid

DEFAULT_ADDRESS = "127.0.0.1:7600"
_MAX_FILE_BYTES = 1 << 20
# Seconds for connecting, and for each answer.
_TLS_PATIENCE_SECONDS = 1.0
_ENCRYPTED = ("the daemon encrypts its connections, and this one was not to be encrypted; give ca, "
              "the authority that vouches for the daemon")
_PLAIN = ("what listens there does not encrypt its connections; leave out ca, if it is hearthd "
          "without --tls-cert")
_NO_CERTIFICATE = ("the daemon seems to ask for a client's certificate (hearthd --tls-client-ca), "
                   "and none was shown; give cert and key. A token in place of a certificate is not "
                   "enough there")
_NOT_ACCEPTED = ("the daemon did not accept the client's certificate; cert and key are to be of a "
                 "client, in time, and made by the authority of hearthd --tls-client-ca")


@dataclass(frozen=True)
class Server:
    """A daemon's address, and the credentials for it."""

    address: str
    """"host:port" or "unix:path"."""
    credentials: Optional[grpc.ChannelCredentials] = None
    """TLS credentials; None = the connection is not encrypted."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Metadata of each call."""
    ca: Optional[str] = None
    """Paths of the files that `credentials` are made of; None = not given."""
    cert: Optional[str] = None
    key: Optional[str] = None

    def __repr__(self) -> str:
        return f"Server({self.address!r})"


def choose(server: Optional[str] = None, context: Optional[str] = None, ca: Optional[str] = None,
           cert: Optional[str] = None, key: Optional[str] = None,
           token_file: Optional[str] = None) -> Server:
    """The daemon that is meant, as `hearth` chooses it: by address or context, by HEARTH_SERVER
    or HEARTH_CONTEXT, by the context in use, on the socket in the default data directory, at
    127.0.0.1:7600. The certificate and token files of a context are never shown to another
    server."""
    if server and context:
        raise invalid("context", "server and context name two daemons")
    if not server and not context:
        server = os.environ.get("HEARTH_SERVER")
        context = None if server else os.environ.get("HEARTH_CONTEXT")
    files: dict[str, str] = {}
    if not server:
        files = _context(context)
        server = files.pop("server", None)
    given = {"ca": ca or os.environ.get("HEARTH_CA"),
             "cert": cert or os.environ.get("HEARTH_CERT"),
             "key": key or os.environ.get("HEARTH_KEY"),
             "token-file": token_file or os.environ.get("HEARTH_TOKEN_FILE")}
    files.update({name: path for name, path in given.items() if path})
    if not server:
        server = default_address()
        # Any user of this machine may listen on the default port.
        if server == DEFAULT_ADDRESS and "token-file" in files and "ca" not in files:
            raise invalid("token_file", f"no daemon listens on the socket in the default data "
                          f"directory, and a token is not sent to {DEFAULT_ADDRESS} unasked: "
                          "give server or context")
    return _load(server, files)


def default_address() -> str:
    """Address of the socket in the default data directory if a daemon listens on it, else
    127.0.0.1:7600."""
    folder = Path(os.environ.get("HEARTH_HOME") or Path.home() / ".hearth").absolute()
    path = os.path.normpath(folder / "hearth.sock")
    return f"unix:{path}" if is_listening(path) else DEFAULT_ADDRESS


def is_listening(path: str) -> bool:
    """Whether a process listens on the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
        except OSError:
            return False
    return True


def is_local(address: str) -> bool:
    """Whether `address` is one Unix socket or loopback address of this machine. False for lists,
    which gRPC takes."""
    return "," not in address and address.removeprefix("ipv4:").removeprefix("ipv6:").startswith(
        ("unix:", "127.0.0.1:", "[::1]:", "localhost:"))


def _contexts_path() -> Path:
    if path := os.environ.get("HEARTH_CONTEXTS"):
        return Path(path)
    config = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(config) if config.startswith("/") else Path.home() / ".config"
    return folder / "hearth" / "contexts.json"


def _context(name: Optional[str]) -> dict[str, str]:
    """The address and files of the context `name`, or of the current context if it is None; empty
    without one."""
    path = _contexts_path()
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
        name = name or contents.get("current") or None
        return dict(contents["contexts"][name]) if name else {}
    except FileNotFoundError:
        if not name:
            return {}
        raise HearthError(grpc.StatusCode.NOT_FOUND, f'there is no context "{name}"') from None
    except KeyError:
        raise HearthError(grpc.StatusCode.NOT_FOUND, f'there is no context "{name}"') from None
    except (ValueError, TypeError, AttributeError):
        raise HearthError(grpc.StatusCode.DATA_LOSS,
                          f"{path}: is not a file of contexts; mend or remove it") from None


def _load(server: str, files: dict[str, str]) -> Server:
    ca, cert, key = files.get("ca"), files.get("cert"), files.get("key")
    if bool(cert) != bool(key):
        raise invalid("cert", "goes together with key: one of them is missing")
    if cert and not ca:
        raise invalid("cert", "needs ca, the authority that vouches for the daemon")
    credentials = None
    if ca and not server.startswith("unix:"):
        credentials = grpc.ssl_channel_credentials(
            _pem("ca", ca), _pem("key", key, is_secret=True) if key else None,
            _pem("cert", cert) if cert else None)
    metadata: tuple[tuple[str, str], ...] = ()
    if token_file := files.get("token-file"):
        if not ca and not is_local(server):
            raise invalid("token_file", f"a token is not sent to {server} unencrypted: give ca, the "
                          "authority that vouches for the daemon")
        metadata = (("authorization", f"Bearer {_token(token_file)}"),)
    return Server(server, credentials, metadata, ca, cert, key)


def why_tls_is_refused(server: Server) -> str:
    """Why TLS keeps a connection to a daemon from working, for people: gRPC reports a refused
    handshake as a broken connection. Makes a connection of its own and takes some seconds at
    most. Empty if TLS is not the cause."""
    host, colon, port = server.address.rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return ""
    host = host.removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        if server.ca is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_verify_locations(server.ca)
        if server.cert is not None:
            context.load_cert_chain(server.cert, server.key)
        connection = socket.create_connection((host, int(port)), _TLS_PATIENCE_SECONDS)
    except OSError:
        return ""
    is_done = False
    with connection:
        try:
            with context.wrap_socket(connection, server_hostname=host) as encrypted:
                is_done = True
                # In TLS 1.3 a daemon judges the client's certificate after the handshake.
                if encrypted.recv(1):
                    return _ENCRYPTED if server.ca is None else ""
        except ssl.SSLCertVerificationError as error:
            return (f"the daemon's certificate was not accepted ({error.verify_message}); ca is to "
                    "be the authority that made it, for the name or number by which the daemon is "
                    "reached")
        except OSError as error:
            is_tls = is_done or "ALERT" in (getattr(error, "reason", None) or "")
            if not is_tls:
                return "" if server.ca is None else _PLAIN
    if server.ca is None:
        return _ENCRYPTED
    return _NOT_ACCEPTED if server.cert else _NO_CERTIFICATE


def _read(field: str, path: str, is_secret: bool) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if is_secret and stat.S_ISREG(mode) and mode & stat.S_IRWXO:
                raise invalid(field, f"{path}: holds a secret that everybody may read: chmod 600 it")
            contents = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise invalid(field, f"{path}: {error.strerror}") from None
    if len(contents) > _MAX_FILE_BYTES:
        raise invalid(field, f"{path}: is too long")
    return contents


def _pem(field: str, path: str, is_secret: bool = False) -> bytes:
    contents = _read(field, path, is_secret)
    if b"-----BEGIN " not in contents:
        raise invalid(field, f"{path}: is not in PEM form")
    return contents


def _token(path: str) -> str:
    """The token in the first line of a file. Errors do not show it."""
    line = _read("token_file", path, is_secret=True).split(b"\n", 1)[0].removesuffix(b"\r")
    if not line or any(not 0x20 < byte < 0x7f for byte in line):
        raise invalid("token_file", f"{path}: its first line is not a token")
    return line.decode("ascii")
