"""Performances, each with its behaviour in tests/everyday and the expected result of each client."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

OURS: Final = "ours"
PEERS: Final = {"confluent": "confluent-kafka", "kafka_python": "kafka-python", "aio": "aiokafka"}
ADAPTERS: Final = (OURS, *PEERS)
MODULES: Final = {
    "producing": "Producing",
    "consuming": "Consuming",
    "groups": "Groups",
    "transactions": "Transactions",
    "administration": "Administration",
    "failures": "Errors and timeouts",
}


class ClientBehaviour(NamedTuple):
    """A behaviour that is tried with each client library (a performance), with the expected results.

    Attributes:
        name: name of its module and of its function.
        title: the behaviour as a sentence.
        perform: a function that is called with a stage and a client and returns the result.
        sees: what the user of our client sees, as JSON.
        differences: for each peer's adapter with another result or without one, the reason.
    """

    name: str
    title: str
    perform: Callable[[Any, Any], Any]
    sees: Any
    differences: dict[str, str]


_BEHAVIOURS: dict[str, ClientBehaviour] = {}


def next_to_peers(*, sees: Any, **differences: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for a performance.

    Args:
        sees: what the user of our client sees, as JSON. Bytes are text.
        differences: for each peer with another result, the reason.
    """
    if not set(differences) <= set(PEERS):
        raise ValueError(f"differences of {sorted(differences)}; expected some of {sorted(PEERS)}")

    def decorate(perform: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{perform.__module__.rpartition('.')[2]}::{perform.__name__}"
        if name in _BEHAVIOURS:
            raise ValueError(f"two performances are named {name}")
        title = perform.__name__.replace("_", " ")
        _BEHAVIOURS[name] = ClientBehaviour(name, title, perform, sees, differences)
        return perform

    return decorate


def load_behaviours() -> dict[str, ClientBehaviour]:
    """Return all performances by name, in the order of the source."""
    for module in MODULES:
        importlib.import_module(f"tests.interop.peers.{module}")
    return dict(_BEHAVIOURS)


def to_json(value: Any) -> Any:
    """Return a value as in JSON, with bytes as text and tuples as lists.

    >>> to_json([(b"a", None), {"x": 1}])
    [['a', None], {'x': 1}]
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    return value
