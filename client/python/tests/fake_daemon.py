"""A daemon within the test's process: a gRPC server whose answers the test gives."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any, Callable, Iterable, Sequence

import grpc
from google.protobuf import any_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from hearth.v1 import admin_pb2, datasets_pb2, feeds_pb2, jobs_pb2, plans_pb2, sweeps_pb2

_SERVICES = [jobs_pb2.DESCRIPTOR.services_by_name["Jobs"],
             feeds_pb2.DESCRIPTOR.services_by_name["Feeds"],
             datasets_pb2.DESCRIPTOR.services_by_name["Datasets"],
             plans_pb2.DESCRIPTOR.services_by_name["Plans"],
             admin_pb2.DESCRIPTOR.services_by_name["Admin"],
             sweeps_pb2.DESCRIPTOR.services_by_name["Sweeps"]]


class Refusal(Exception):
    """An error as the answer of a call."""

    def __init__(self, code: grpc.StatusCode, message: str,
                 violations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.violations = violations


class _Threads(futures.Executor):
    """A thread for each call, which does not keep the program from ending."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> futures.Future[Any]:
        done: futures.Future[Any] = futures.Future()
        threading.Thread(target=lambda: done.set_result(work(*args, **more)), daemon=True).start()
        return done


class FakeDaemon:
    """`answers` maps a method ("SubmitJob") to a function from the request to a message, or for a
    watch to messages. `requests` has all requests in order. Starts at once; after stop(), start()
    takes the same port again, and the Unix socket at `path`."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.requests: list[Any] = []
        self._lock = threading.Lock()
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = grpc.server(_Threads())
        handlers = {f"/{service.full_name}/{method.name}": self._handler(method)
                    for service in _SERVICES for method in service.methods}
        self._server.add_generic_rpc_handlers((_Handlers(handlers),))
        self._port = self._server.add_insecure_port(self.address)
        if self._path:
            self._server.add_insecure_port(f"unix:{self._path}")
        self._server.start()

    def stop(self) -> None:
        """Breaks all calls, as a kill of the daemon does."""
        self._server.stop(None).wait()

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler:
        request_type = GetMessageClass(method.input_type)
        if method.client_streaming:
            return self._taker(method.name, request_type, method.server_streaming)
        kind = (grpc.unary_stream_rpc_method_handler if method.server_streaming
                else grpc.unary_unary_rpc_method_handler)
        answer = self._stream if method.server_streaming else self._answer

        def respond(request: Any, context: grpc.ServicerContext) -> Any:
            with self._lock:
                self.requests.append(request)
            return answer(self.answers[method.name], request, context)

        return kind(respond, request_deserializer=request_type.FromString,
                    response_serializer=lambda message: message.SerializeToString())

    def _taker(self, name: str, request_type: Any,
               is_answered_by_stream: bool) -> grpc.RpcMethodHandler:
        """Handler of a method that takes a stream of messages, which the function gets."""
        kind = (grpc.stream_stream_rpc_method_handler if is_answered_by_stream
                else grpc.stream_unary_rpc_method_handler)
        answer = self._stream if is_answered_by_stream else self._answer

        def respond(requests: Iterable[Any], context: grpc.ServicerContext) -> Any:
            return answer(self.answers[name], requests, context)

        return kind(
            respond, request_deserializer=request_type.FromString,
            response_serializer=lambda message: message.SerializeToString())

    @staticmethod
    def _answer(answer: Callable[[Any], Any], request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return answer(request)
        except Refusal as refusal:
            if refusal.violations:
                context.set_trailing_metadata(
                    [("grpc-status-details-bin", status_details(refusal))])
            context.abort(refusal.code, refusal.message)

    @staticmethod
    def _stream(answer: Callable[[Any], Iterable[Any]], request: Any,
                context: grpc.ServicerContext) -> Iterable[Any]:
        context.send_initial_metadata([("hearth-watch", "open")])
        try:
            yield from answer(request)
        except Refusal as refusal:
            context.abort(refusal.code, refusal.message)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, handlers: dict[str, grpc.RpcMethodHandler]) -> None:
        self._handlers = handlers

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(details.method)


def status_details(refusal: Refusal) -> bytes:
    """A serialized google.rpc.Status with a BadRequest, field by field."""
    bad_request = b"".join(
        _bytes_field(1, _bytes_field(1, field.encode()) + _bytes_field(2, words.encode()))
        for field, words in refusal.violations)
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.BadRequest", value=bad_request)
    code = bytes([1 << 3, refusal.code.value[0]])
    return (code + _bytes_field(2, refusal.message.encode())
            + _bytes_field(3, detail.SerializeToString()))


def _bytes_field(number: int, value: bytes) -> bytes:
    length, digits = len(value), []
    while length >= 128:
        digits.append(length % 128 + 128)
        length //= 128
    return bytes([number << 3 | 2, *digits, length]) + value
