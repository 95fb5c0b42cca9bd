"""How one description of the calls becomes two clients.

Calls are written once, as coroutines and asynchronous generators (hearth.calls). AsyncClient has
them as they are. Over a blocking transport they never suspend, so that Client runs them to their
end on the spot.
"""

from __future__ import annotations

import functools
import inspect
from typing import (Any, AsyncGenerator, Callable, Concatenate, Coroutine, Generator, ParamSpec,
                    TypeVar)

import grpc

from hearth.errors import HearthError

P = ParamSpec("P")
Result = TypeVar("Result")
Item = TypeVar("Item")
Calls = TypeVar("Calls")


def run(steps: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never suspends."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    steps.close()
    raise RuntimeError("a call over a blocking transport has suspended")


def iterate(items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
    """Items of an asynchronous generator that never suspends; closed with the iterator."""
    try:
        while True:
            try:
                item = run(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())


def blocking(method: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Result]:
    """A blocking method, made of a coroutine method."""
    @functools.wraps(method)
    def call(*args: P.args, **more: P.kwargs) -> Result:
        return run(method(*args, **more))
    return call


def iterating(method: Callable[P, AsyncGenerator[Item, None]]
              ) -> Callable[P, Generator[Item, None, None]]:
    """A method that returns an iterator, made of an asynchronous generator method."""
    @functools.wraps(method)
    def call(*args: P.args, **more: P.kwargs) -> Generator[Item, None, None]:
        return iterate(method(*args, **more))
    return call


def of_client(method: Callable[Concatenate[Calls, P], Result]
              ) -> Callable[Concatenate[Any, P], Result]:
    """A method that forwards to the call of the same name in `_calls`."""
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **more: P.kwargs) -> Result:
        return method(self._calls, *args, **more)
    return call


def on_id(method: Callable[Concatenate[Calls, str, P], Result]
          ) -> Callable[Concatenate[Any, P], Result]:
    """A method of a job or the like that makes a call with its `id`."""
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **more: P.kwargs) -> Result:
        if self._calls is None:
            raise HearthError(grpc.StatusCode.FAILED_PRECONDITION,
                              f"{self.id} is a copy without a client: ask a client for it")
        return method(self._calls, self.id, *args, **more)
    shown = inspect.signature(method)
    owner, _, *rest = shown.parameters.values()
    setattr(call, "__signature__", shown.replace(parameters=[owner, *rest]))
    return call
