"""Synchronous classes for asyncio clients: each runs its asyncio twin on an event loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from kafkaframes.client.loop import LoopThread

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


class SyncClient:
    """A synchronous client, whose asyncio twin runs on a loop in a thread of its own."""

    _twin: Any
    _loop: LoopThread

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"<{self._name}>"

    def __del__(self) -> None:
        """Close a client that was not closed. A client with invalid settings has no loop."""
        loop: LoopThread | None = getattr(self, "_loop", None)
        if loop is not None:
            loop.abandon()

    @property
    def _name(self) -> str:
        """The name of the client in messages: class, client id and servers."""
        settings = self._twin.settings
        return f"kafkaframes {type(self).__name__} {settings.client_id!r} of {settings.bootstrap_servers}"


def sync_method(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncClient, Arguments], Result]:
    """Return a method that calls the asyncio twin's method and waits for its result.

    Type checkers see the signature of the twin's method.
    """
    name = method.__name__

    @wraps(method)
    def call_and_wait(self: SyncClient, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        result: Result = self._loop.call(getattr(self._twin, name)(*arguments, **options))
        return result

    return call_and_wait


def documented_as(method: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a decorator that gives a method the name, documentation and signature of the asyncio twin's method.

    Type checkers see the signature of the decorated method. With ``functools.wraps``, type checkers would not recognize
    a bound method.
    """

    def copy_documentation(function: Method) -> Method:
        update_wrapper(function, method)
        return function

    return copy_documentation


def sync_method_on_loop(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[SyncClient, Arguments], Result]:
    """Return a method that calls a synchronous method of the twin on the loop, which owns the twin's state."""

    async def run_on_loop(twin: Any, *arguments: Any, **options: Any) -> Result:
        return method(twin, *arguments, **options)

    @wraps(method)
    def call_and_wait(self: SyncClient, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._loop.call(run_on_loop(self._twin, *arguments, **options))

    return call_and_wait
