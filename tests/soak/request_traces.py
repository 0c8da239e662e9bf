"""Print a digest of the requests that the state machines of the clients return, for each schedule.

    python -m tests.soak.request_traces [--schedules 3] [--seed 1]

A state machine without I/O is deterministic: the digests do not depend on the process or on ``PYTHONHASHSEED``.
``tests/client/test_request_traces.py`` compares processes with different hash seeds.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.soak import consumer_cases, consumer_schedules, producer_schedules, share_cases, share_schedules

from kafkaframes.client.batches import Batch
from kafkaframes.client.consumer_machine import ConsumerMachine
from kafkaframes.client.sequencing import Sequencer
from kafkaframes.client.share_machine import ShareConsumerMachine

TRACED_METHODS: tuple[tuple[type, str], ...] = (
    (ConsumerMachine, "next_requests"),
    (ConsumerMachine, "next_callback"),
    (ConsumerMachine, "next_time"),
    (ShareConsumerMachine, "next_requests"),
    (ShareConsumerMachine, "take_results"),
    (ShareConsumerMachine, "next_time"),
    (Sequencer, "take_batch"),
    (Sequencer, "next_time"),
)


def to_ordered(value: Any) -> object:
    """Return a value in which sets are sorted.

    Lists and dicts keep their order, because the order in requests depends on it.
    """
    if isinstance(value, Batch):
        return value.partition, value.order, value.assigned_stamp
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, [to_ordered(entry) for entry in value]
    if isinstance(value, (list, tuple)):
        return [to_ordered(entry) for entry in value]
    if isinstance(value, dict):
        return [(to_ordered(key), to_ordered(entry)) for key, entry in value.items()]
    return value


def trace_methods(values: list[object]) -> None:
    """Patch the traced methods so that they append their results to a list."""

    def trace(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = method(*args)
            values.append((method.__qualname__, to_ordered(result)))
            return result

        return call

    for cls, name in TRACED_METHODS:
        setattr(cls, name, trace(getattr(cls, name)))


def main() -> None:
    """Print the digests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--schedules", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    options = parser.parse_args()
    values: list[object] = []
    trace_methods(values)
    checks: list[tuple[str, Callable[[], object]]] = [*consumer_cases.CASES.items(), *share_cases.CASES.items()]
    for schedules in (consumer_schedules, share_schedules, producer_schedules):
        for seed in range(options.seed, options.seed + options.schedules):
            checks.append((f"{schedules.__name__} {seed}", lambda explore=schedules.explore, seed=seed: explore(seed)))
    for name, check in checks:
        values.clear()
        with suppress(AssertionError):  # other tests report failures
            check()
        print(f"{name}: {len(values)} results, {hashlib.sha256(repr(values).encode()).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
