"""Measure the gain of each fast path over the general path, with the input that it is made for.

Both sides take turns in one process, in CPU seconds, the best of several rounds, and their results are compared.
The general path is measured with the entry of the fast path replaced by one that declines every input.

Run:  python benchmarks/fast_paths.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.broker.test_short import PairedBrokers, build_repeated_request

from append import build_sets
from kafkaframes.broker.dispatch.fast_path import FastPath
from kafkaframes.broker.dispatch.fast_produce import RequestCache
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.protocol.messages import columns, message
from kafkaframes.protocol.messages._kernels_hot import hot_messages
from kafkaframes.protocol.messages.codec import HotShapes
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.records.append import AppendSettings, entry, validate_and_assign
from kafkaframes.records.build import build_records
from messages_columns import build_fetch_request, build_metadata
from messages_objects import CASES as MESSAGES

Side = Callable[[], Any]
Without = Callable[[], AbstractContextManager[Any]]


def measure_path(rounds: int, work: Side, without: Without) -> tuple[float, float]:
    """Return the best CPU milliseconds with the fast path and without it, in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, around in enumerate((nullcontext, without)):
            with around():
                work()
                start = time.process_time()
                work()
                spent = (time.process_time() - start) * 1e3
            best[side] = min(best[side], spent)
    return best[0], best[1]


def list_appends() -> Iterator[tuple[str, Side, Without]]:
    """Yield appends of sets whose codec or format the topic does not keep."""
    general = partial(patch.object, entry, "_rebuild_with_kernels", lambda *arguments: None)
    for magic, codec, settings in [
        (2, "gzip", {"codec": "zstd"}),
        (2, "lz4", {"codec": "zstd"}),
        (2, "none", {"codec": "lz4"}),
        (2, "none", {"codec": "zstd"}),
        (1, "gzip", {}),
        (1, "snappy", {}),
        (1, "none", {}),
    ]:
        sets, _ = build_sets(magic, codec, 100, 0)
        options = AppendSettings(**settings)

        def run(sets: list[bytes] = sets, options: AppendSettings = options) -> None:
            for records in sets:
                validate_and_assign(records, 0, options)

        yield f"append rebuilt: v{magic} {codec} to v2 {settings.get('codec', codec)}", run, general


@contextmanager
def ignore_shapes() -> Iterator[None]:
    """Delete the functions of shapes, and generate none."""
    shapes = [(one, dict(one)) for one in gc.get_objects() if isinstance(one, HotShapes)]
    with patch.object(HotShapes, "MIN_OCCURRENCES", 1 << 60):
        for one, _ in shapes:
            one.clear()
            one.occurrences.clear()
        yield
    for one, saved_entries in shapes:
        one.update(saved_entries)


def list_shapes() -> Iterator[tuple[str, Side, Without]]:
    """Yield decoding and encoding of one message, with and without functions for an element's shape."""
    for name, make in MESSAGES.items():
        value, version = make()
        data, cls = value.encode(version), type(value)
        yield f"shapes: {name} decode", partial(_repeat_work, 20, partial(cls.decode, data, version)), ignore_shapes
        yield f"shapes: {name} encode", partial(_repeat_work, 20, partial(value.encode, version)), ignore_shapes


def _repeat_work(times: int, work: Side) -> None:
    """Run the work several times."""
    for _ in range(times):
        work()


def list_repeats() -> Iterator[tuple[str, Side, Without]]:
    """Yield a producer's requests in the same words, in front of the broker's own work."""
    general = partial(patch.multiple, RequestCache, take=lambda *_: None, add=lambda *_: None)
    for size in (100, 1000, 10_000):
        pair, session = PairedBrokers(), Session()
        frame = memoryview(build_repeated_request(9, build_records({"value": [b"v" * 100] * (size // 100)})))
        yield (
            f"repeats: Produce, {size:,} bytes",
            partial(_repeat_work, 1000, partial(pair.short, frame, session)),
            general,
        )


def list_fetches() -> Iterator[tuple[str, Side, Without]]:
    """Yield a consumer's request without a session, from frame to frame, in front of the dispatcher."""
    pair, session, fetch = PairedBrokers(), Session(), message("FetchRequest")
    partition_row = fetch.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000)
    body = fetch(
        max_wait_ms=0, max_bytes=1 << 20, topics=[fetch.FetchTopic(topic="orders", partitions=[partition_row])]
    )
    frame, dispatcher = encode_request(body, 12, correlation_id=1, client_id="c"), pair.dispatchers[0]

    def answer() -> None:
        if pair.short(memoryview(frame), session) is None:
            request = dispatcher.decode_request(frame, session)
            answer_found = dispatcher.answer(request)
            dispatcher.encode(
                request, answer_found.answer if isinstance(answer_found, DeferredResponse) else answer_found
            )

    yield (
        "short: Fetch v12",
        partial(_repeat_work, 1000, answer),
        partial(patch.object, FastPath, "__call__", lambda *_: None),
    )


def build_partitions(index: str = "partitionIndex", rows: str = "partitions", **fields: Any) -> dict[str, Any]:
    """Return the rows of ten partitions of one topic."""
    return {"name": "orders", rows: [{index: number, **fields} for number in range(10)]}


# Return the content of a hot message, without fields that its version lacks.
HOT_MESSAGES = {
    "MetadataRequest": {"topics": [{"topicId": b"t" * 16, "name": f"orders-{number}"} for number in range(3)]},
    "MetadataResponse": build_metadata(),
    "ProduceResponse": {"responses": [build_partitions("index", "partitionResponses", baseOffset=7)]},
    "FetchRequest": build_fetch_request(),
    "ListOffsetsRequest": {"replicaId": -1, "topics": [build_partitions(timestamp=-1)]},
    "ListOffsetsResponse": {"topics": [build_partitions(offset=5)]},
    "OffsetCommitRequest": {"groupId": "g", "memberId": "m", "topics": [build_partitions(committedOffset=5)]},
    "OffsetCommitResponse": {"topics": [build_partitions()]},
    "OffsetFetchResponse": {"groups": [{"groupId": "g", "topics": [build_partitions(committedOffset=5)]}]},
    "ApiVersionsResponse": {"apiKeys": [{"apiKey": key, "maxVersion": 3} for key in range(60)]},
}


def list_decoders() -> Iterator[tuple[str, Side, Without]]:
    """Yield columns of many messages, by straight-line code and by the table."""
    for name, version in hot_messages():
        plan = plan_message(catalog.load_spec(name), version)
        if not columns.is_specialized(plan):
            print(f"{name} v{version} is not compiled: kafkaframes kernels warm --decoders", file=sys.stderr)
            continue
        data = columns.encode_columns(plan, pa.array([HOT_MESSAGES[name]]))[0].as_py()
        messages = pa.array([data] * max(100, min(10_000, 2_000_000 // len(data))), pa.binary())
        general = partial(patch.object, columns, "_run_specialized", columns._run_table_driven)
        yield (
            f"decoder: {name} v{version}",
            partial(_repeat_work, 5, partial(columns.decode_columns, plan, messages, specialized=True)),
            general,
        )


FAST_PATHS = {
    "append": list_appends,
    "shapes": list_shapes,
    "repeats": list_repeats,
    "fetches": list_fetches,
    "decoders": list_decoders,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--path", action="append", choices=FAST_PATHS, help="by default all")
    options = parser.parse_args()
    gc.disable()
    print(f"CPU milliseconds, best of {options.rounds} rounds in turns; load {os.getloadavg()[0]:.1f}\n")
    print("| path | with | without | times |\n|---|---|---|---|")
    for path in options.path or FAST_PATHS:
        for name, work, without in FAST_PATHS[path]():
            fast, general = measure_path(options.rounds, work, without)
            print(f"| {name} | {fast:.1f} | {general:.1f} | {general / fast:.2f} |", flush=True)


if __name__ == "__main__":
    main()
