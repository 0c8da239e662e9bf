"""Count the package's files that a value passes through, and how often it returns to one of them.

A *trip* is what one call enters of the Python package: how many files, how often a file is entered again that had been
left, and how often one of the fifteen packages is. A segment to Spark's batches; a Produce request's frame to the disk,
by the fast path and by the dispatcher; a topic to the rows of a Spark task, on the task's thread; an answer that has
arrived to the records of a consumer's poll, on the client's.

Run:      python benchmarks/trips.py
          (for a comparison with another checkout: benchmarks/checkouts.py)
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count, groupby
from pathlib import Path
from types import FrameType
from typing import Any

NOW_MS = 1_700_000_000_000
SMALL_COLUMNS = {"key": [b"key"], "value": [b"v" * 100], "timestamp": [NOW_MS]}
RECORDS = 300_000
PARTITIONS = 30  # more than a trip is made, with those before it
Call = Callable[[], object]


def make_columns(count: int) -> dict[str, list[Any]]:
    """Return records of about 100 bytes with repeated keys."""
    return {
        "key": [b"key-%d" % (number % 1000) for number in range(count)],
        "value": [b'{"id":%d,"text":"%s"}' % (number, b"v" * (number % 80)) for number in range(count)],
        "timestamp": [NOW_MS + number for number in range(count)],
    }


def write_log_directory(folder: Path, name: str, *, count: int = RECORDS, **how: Any) -> Path:
    """Write a log directory with one partition of two segments, the second empty; return its path."""
    from kafkaframes.records.build import build_records

    partition = folder / name / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(build_records(make_columns(count), **how))
    (partition / f"{count:020}.log").write_bytes(b"")
    return folder / name


def plan_task(directory: Path) -> tuple[Any, ...]:
    """Return Spark's plan of a log directory in one task: the work, its columns, its options."""
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.resolve import plan_log

    options = ReadOptions(paths=(str(directory),), table="records")
    (work,) = plan_log(options, cores=1).works
    return work, choose_columns(None, table="records"), options


def read_all(batches: Iterable[object]) -> None:
    """Ask for all."""
    for _ in batches:
        pass


def create_small_log(directory: Path) -> Any:
    """Return a new partition's log on this disk."""
    from kafkaframes.broker.lifecycle.assembly import open_broker

    state = open_broker(data_dir=str(directory))
    state.create_topic("orders", 1)
    return state.topics["orders"].partitions[0].log


def build_produce_frame() -> bytes:
    """Return a Produce request of one small batch, without its size."""
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.headers import encode_request
    from kafkaframes.records.build import build_records

    types: Any = message("ProduceRequest")
    row = types.PartitionProduceData(index=0, records=build_records(SMALL_COLUMNS))
    body = types(acks=-1, topic_data=[types.TopicProduceData(name="orders", partition_data=[row])])
    return encode_request(body, 9, client_id="trip")


def make_produce_calls(directory: Path) -> Iterator[tuple[str, Call]]:
    """Append one batch to a partition on this disk, from a request's frame to its answer's."""
    from kafkaframes.broker.dispatch.dispatch import Dispatcher
    from kafkaframes.broker.dispatch.fast_path import FastPath
    from kafkaframes.broker.lifecycle.assembly import open_broker
    from kafkaframes.broker.requests.request import Session
    from kafkaframes.records.build import build_records

    state = open_broker(data_dir=str(directory))
    state.create_topic("orders", 1)
    log, batch = state.topics["orders"].partitions[0].log, build_records(SMALL_COLUMNS)
    dispatcher, session, frame = Dispatcher(state), Session(), build_produce_frame()
    fast = FastPath(dispatcher)

    def dispatched() -> None:
        request = dispatcher.decode_request(frame, session)
        answer: Any = dispatcher.answer(request)
        dispatcher.encode(request, answer)

    yield "a Produce to the disk, fast path", lambda: fast(memoryview(frame), session)
    yield "a Produce to the disk, dispatcher", dispatched
    yield "`append_as_leader` of one small batch", lambda: log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


def make_calls(folder: Path) -> Iterator[tuple[str, Call]]:
    """Name what is followed."""
    from kafkaframes.scan.arrow import rebatch
    from kafkaframes.scan.log.reading import read_work

    work, columns, options = plan_task(write_log_directory(folder, "followed", count=1000))
    yield "a segment to Spark's Arrow batches", lambda: read_all(rebatch(read_work(work[:1], columns, options)))
    yield from export_calls(folder)
    yield from make_produce_calls(folder / "trip")
    yield from read_topic_rows()
    yield from make_poll_calls()


def export_calls(folder: Path) -> Iterator[tuple[str, Call]]:
    """Export a log to a Parquet file, planning and report included."""
    import kafkaframes

    directory, numbers = write_log_directory(folder, "to_export", count=1000), count()
    yield "a log to an exported file", lambda: kafkaframes.export_log(directory, folder / f"exported-{next(numbers)}")


def read_topic_rows() -> Iterator[tuple[str, Call]]:
    """Read one small record of a live topic, as a task does whose process has read before."""
    from kafkaframes.broker import Broker
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.reading import read_range
    from kafkaframes.scan.topic.shares import PartitionRange

    with Broker() as broker:
        broker.create_topic("orders")
        broker.append("orders", [{"key": b"key", "value": b"v" * 100}])
        options = TopicOptions(client={"bootstrap_servers": broker.bootstrap_servers})
        work, columns = PartitionRange("orders", 0, 0, 1), choose_columns(["topic", "partition", "offset", "value"])
        yield "a topic to a task's rows", lambda: read_all(read_range(work, columns, options))


def make_poll_calls() -> Iterator[tuple[str, Call]]:
    """Poll one small record of a response that has arrived; each call returns that of another partition."""
    from kafkaframes.broker import Broker
    from kafkaframes.client import AsyncConsumer

    loop = asyncio.new_event_loop()
    with Broker() as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            broker.append("orders", [{"key": b"key", "value": b"v" * 100}], partition=partition)
        consumer = AsyncConsumer(broker.bootstrap_servers, auto_offset_reset="earliest")
        loop.run_until_complete(consumer.assign([("orders", partition) for partition in range(PARTITIONS)]))
        loop.run_until_complete(consumer.poll(60_000, max_records=1))

        def poll() -> None:
            asyncio._set_running_loop(loop)  # the poll does not wait, so it needs no event loop
            try:
                consumer.poll(0, max_records=1).send(None)
            except StopIteration as end:
                if end.value:
                    return
            finally:
                asyncio._set_running_loop(None)
            raise RuntimeError("the response has not arrived for all partitions")

        yield "a topic to a consumer's records", poll
        loop.run_until_complete(consumer.close())
    loop.close()


def measure_trips(folder: Path) -> Iterator[tuple[str, float]]:
    """Return for each trip the number of files, and of returns to files and to packages."""
    for name, call in make_calls(folder):
        for _ in range(20):  # the first calls fill the caches
            call()
        files = list_entries(call)
        packages = drop_repeats(file.split(os.sep)[0] for file in files)
        yield f"{name}: files", len(set(files))
        yield f"{name}: returns to a file", len(files) - len(set(files))
        yield f"{name}: returns to a package", len(packages) - len(set(packages))


def drop_repeats(names: Iterable[str]) -> list[str]:
    """Return the names without consecutive duplicates."""
    return [name for name, _ in groupby(names)]


def list_entries(call: Callable[[], object]) -> list[str]:
    """Return the files of the package that a call enters, in order; those that only start compiled code left out."""
    import kafkaframes

    root = os.path.dirname(kafkaframes.__file__) + os.sep
    stack: list[str] = [""]
    files: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            name = frame.f_code.co_filename
            inside = name[len(root) :] if name.startswith(root) else ""
            if not inside or inside.startswith(("kernels", "wire/_jit")):
                inside = stack[-1]
            elif inside != stack[-1]:
                files.append(inside)
            stack.append(inside)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def main() -> None:
    """Print a line for each figure."""
    with tempfile.TemporaryDirectory() as folder:
        for name, figure in measure_trips(Path(folder)):
            print(f"{name} {figure:.0f}")


if __name__ == "__main__":
    main()
