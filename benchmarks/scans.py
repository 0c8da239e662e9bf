"""Compare scans with usual alternatives: segments with Parquet, a topic with clients whose records become a DataFrame.

Segments: the same rows (key, value of 100 bytes, timestamp; LZ4) lie in segments and in a Parquet file; each line reads
all of them, or some. A topic: aiokafka's ``getmany`` and confluent-kafka's ``consume`` fill lists, of which
pandas makes a DataFrame; an embedded broker in a process of its own serves all. What counts is the CPU time of this
process, in turn, the median of several runs; a ratio is that of two in one turn.

Run:    python benchmarks/scans.py [--gigabytes 2] [--records 5000000] [--runs 3] [--skip segments|topic]
Needs:  pip install 'kafkaframes[pandas,polars,duckdb]' aiokafka confluent-kafka
Saves:  nothing: benchmarks/results/scans.md has what it printed, with machine and date
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import kafkaframes
from clients import make_values, measure_in_turn
from kafkaframes.client import Admin, NewTopic, Producer

SEGMENT_ROWS = 500_000  # of a segment
COLUMNS = ("offset", "timestamp", "key", "value")


def make_rows(first: int, count: int) -> pa.Table:
    """Return rows with offsets that start at ``first``."""
    numbers = np.arange(first, first + count)
    keys = pa.array([b"key-%06d" % number for number in (numbers * 7919 % 1_000_000).tolist()], pa.binary())
    times = pa.array(1_750_000_000_000 + numbers)
    return pa.table({"offset": pa.array(numbers), "timestamp": times, "key": keys, "value": make_values(count, 100)})


def write_data(folder: Path, gigabytes: float) -> tuple[Path, Path, int]:
    """Write segments of about a given size in two partitions, and the same rows as Parquet."""
    log, parquet = folder / "log", folder / "orders.parquet"
    written_bytes, number, writer = 0, 0, None
    while written_bytes < gigabytes * 1e9:
        partition, first = number % 2, number // 2 * SEGMENT_ROWS
        table = make_rows(first, SEGMENT_ROWS)
        path = log / f"orders-{partition}" / f"{first:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        written_bytes += path.write_bytes(kafkaframes.build_records(table, codec="lz4", batch_records=2_000))
        typed_table = table.append_column("partition", pa.array([partition] * SEGMENT_ROWS, pa.int32()))
        typed_table = typed_table.set_column(1, "timestamp", typed_table["timestamp"].cast(pa.timestamp("ms", "UTC")))
        writer = writer or pq.ParquetWriter(parquet, typed_table.schema, compression="lz4")
        writer.write_table(typed_table)
        number += 1
    if writer is not None:
        writer.close()
    return log, parquet, number * SEGMENT_ROWS


def count_rows(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def print_segment_rates(folder: Path, gigabytes: float, runs: int) -> None:
    """Print how many rows of segments are read per second, compared with Parquet."""
    log, parquet, count = write_data(folder, gigabytes)
    scan = kafkaframes.scan_log(log)
    narrow, late = scan.select(*COLUMNS), count // 2 - SEGMENT_ROWS // 2
    connection = duckdb.connect()
    scan.to_duckdb(connection, "orders")
    query = 'SELECT count(*), max("offset"), sum(octet_length(value)) FROM {} WHERE "partition" = 1'
    predicate = (pl.col("offset") >= late) & (pl.col("partition") == 1)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "to_batches(), 4 columns": (
            lambda: count_rows(narrow.to_batches()),
            lambda: count_rows(pq.ParquetFile(parquet).iter_batches(columns=list(COLUMNS))),
        ),
        "select(offset, value).to_arrow()": (
            lambda: scan.select("offset", "value").to_arrow().num_rows,
            lambda: pq.read_table(parquet, columns=["offset", "value"]).num_rows,
        ),
        "count()": (scan.count, lambda: pq.read_metadata(parquet).num_rows),
        "lazy().filter(the end of a partition)": (
            lambda: scan.lazy().filter(predicate).select("offset", "value").collect(),
            lambda: pl.scan_parquet(parquet).filter(predicate).select("offset", "value").collect(),
        ),
        "DuckDB SELECT of three columns": (
            lambda: connection.execute(query.format("orders")).fetchall(),
            lambda: connection.execute(query.format(f"'{parquet}'")).fetchall(),
        ),
    }
    size = sum(path.stat().st_size for path in log.rglob("*.log"))
    print(f"{count} rows, {size / 1e9:.2f} GB of segments, {parquet.stat().st_size / 1e9:.2f} GB of Parquet")
    for label, (ours, theirs) in pairs.items():
        spent = measure_in_turn({"ours": ours, "parquet": theirs}, runs)
        print(print_rates(label, count, spent, "ours"))


def print_rates(label: str, count: int, spent: dict[str, list[tuple[float, float]]], first: str) -> str:
    """Return rows per CPU second and per second, and the CPU and wall time of the others relative to ``first``."""
    middle = {name: sorted(runs)[len(runs) // 2] for name, runs in spent.items()}
    cpu, clock = middle[first]
    text = f"{label:40} {count / cpu / 1e6:8.2f} M rows/CPU s {count / clock / 1e6:8.2f} M rows/s"
    for name, (other_cpu, other_clock) in middle.items():
        if name != first:
            text += f" | {name} {other_cpu / cpu:.2f}x CPU, {other_clock / clock:.2f}x time"
    return text


def read_with_confluent(servers: str, topic: str, count: int) -> pd.DataFrame:
    """Read with librdkafka into lists into a DataFrame."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    peer = Consumer({**settings, "queued.min.messages": 1_000_000})
    peer.subscribe([topic])
    lists: tuple[list[Any], ...] = ([], [], [], [])
    while len(lists[0]) < count:
        for message in peer.consume(10_000, 1.0):
            for values_of, value in zip(
                lists, (message.offset(), message.timestamp()[1], message.key(), message.value()), strict=True
            ):
                values_of.append(value)
    peer.close()
    return pd.DataFrame(dict(zip(COLUMNS, lists, strict=True)))


def read_with_aiokafka(servers: str, topic: str, count: int) -> pd.DataFrame:
    """Read with aiokafka into lists into a DataFrame."""
    from aiokafka import AIOKafkaConsumer

    async def read() -> tuple[list[Any], ...]:
        peer = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await peer.start()
        lists: tuple[list[Any], ...] = ([], [], [], [])
        while len(lists[0]) < count:
            for messages in (await peer.getmany(timeout_ms=1_000)).values():
                lists[0].extend(message.offset for message in messages)
                lists[1].extend(message.timestamp for message in messages)
                lists[2].extend(message.key for message in messages)
                lists[3].extend(message.value for message in messages)
        await peer.stop()
        return lists

    return pd.DataFrame(dict(zip(COLUMNS, asyncio.run(read()), strict=True)))


BROKER_CODE = """
import sys
from kafkaframes.broker import Broker
with Broker(data_dir=sys.argv[1]) as broker:
    print(broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def print_topic_rates(folder: Path, count: int, runs: int) -> None:
    """Print how many records of a topic are read per second, compared with other clients."""
    command = [sys.executable, "-c", BROKER_CODE, str(folder / "broker")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stdin is not None
        servers = broker.stdout.readline().strip()
        with Admin(servers) as admin:
            topic_configs = {
                "retention.ms": "-1"
            }  # the records are old, so retention would delete them on a busy machine
            admin.create_topics([NewTopic(name="orders", num_partitions=2, configs=topic_configs)])
        with Producer(servers, compression_type="lz4", batch_size=100_000) as producer:
            for first in range(0, count, SEGMENT_ROWS):
                producer.send_arrow(
                    make_rows(first, min(SEGMENT_ROWS, count - first)).drop_columns(["offset"]), topic="orders"
                )
        scan = kafkaframes.scan_topic(servers, "orders").select(*COLUMNS)
        assert scan.count() == count
        connection = duckdb.connect()
        scan.to_duckdb(connection, "orders")
        late = pl.col("offset") >= count // 4  # half of each partition
        ours = {
            "to_arrow()": lambda: scan.to_arrow().num_rows,
            "lazy().filter(half of it)": lambda: scan.lazy().filter(late).collect().height,
            "DuckDB SELECT": lambda: connection.execute('SELECT max("offset"), count(value) FROM orders').fetchall(),
            "to_pandas()": lambda: len(scan.to_pandas()),
            "to_pandas(types_mapper=ArrowDtype)": lambda: len(scan.to_pandas(types_mapper=pd.ArrowDtype)),
        }
        theirs = {
            "confluent": lambda: len(read_with_confluent(servers, "orders", count)),
            "aiokafka": lambda: len(read_with_aiokafka(servers, "orders", count)),
        }
        spent = measure_in_turn(ours | theirs, runs)
        for name in ours:
            chosen_costs = {key: value for key, value in spent.items() if key == name or key in theirs}
            print(print_rates(f"topic, {name}", count, chosen_costs, name))
        broker.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip", choices=("segments", "topic"), default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.skip != "segments":
            print_segment_rates(Path(folder), options.gigabytes, options.runs)
        if options.skip != "topic":
            print_topic_rates(Path(folder), options.records, options.runs)


if __name__ == "__main__":
    main()
