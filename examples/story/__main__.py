"""``make run``: a demonstration of the package on the flights that departed from New York City in 2013.

A real producer fills topics, a streaming query counts exactly once while the broker is killed, and old clients join.
Then the recorded traffic and the log directory are examined, and a page reports the results. Without
``KAFKA_BOOTSTRAP_SERVERS`` it starts the embedded broker. Otherwise it uses that cluster, which is neither killed nor
examined on disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import uuid
import webbrowser
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import cluster
import flights
import looking
import migration
import page
from telling import EVENTS, check, note, seconds, step, tell
from totals import Totals

OLD_CLIENT_RECORD_COUNT = 20_000
PARTITION_COUNT = 3
Reports = dict[str, tuple[Path, str]]  # report title -> page, and a description of it
# A compacted topic that the broker does not compact during the story: kafkaframes compact does it afterwards.
PLANES_TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "2097152", "min.compaction.lag.ms": "86400000"}


def main() -> None:
    """Run the story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path("out/story"), help="output directory, which is replaced")
    parser.add_argument("--flights", type=int, help="send only this number of flights")
    parser.add_argument("--no-page", action="store_true", help="do not open the page in a browser")
    options = parser.parse_args()
    flights.place()  # report a missing package before the slow steps
    _empty_directory(options.to)
    with ExitStack() as stack:
        lines, page_path = tell_story(options.to, options.flights, stack)
    print()
    for number, line in enumerate(lines, 1):
        print(f"{number:2}. {line}")
    print(f"\nThe page with all results: {page_path}")
    if not options.no_page and sys.stdout.isatty():
        webbrowser.open(page_path.absolute().as_uri())


def _empty_directory(out: Path) -> None:
    """Create or empty the output directory. Reject one with other files."""
    if out.exists() and any(out.iterdir()) and not (out / ".story").exists():
        raise SystemExit(f"{out}: contains other files")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / ".story").touch()


def tell_story(out: Path, limit: int | None, stack: ExitStack) -> tuple[list[str], Path]:
    """Return the summary lines and the page's path."""
    pool = stack.enter_context(ThreadPoolExecutor(2))
    with step("starting Spark and reading the flights of 2013; kernels are compiled at the same time, once"):
        warm = [sys.executable, "-m", "kafkaframes", "kernels", "warm"]
        compiling = subprocess.Popen(warm, stdout=subprocess.DEVNULL)
        starting = pool.submit(_start_spark, out / "spark.log")
        data = pool.submit(flights.load, limit).result()
        if compiling.wait():
            raise SystemExit("the kernels could not be compiled: run kafkaframes kernels warm for the reason")
    broker = None
    servers = cluster.find_given_servers()
    if servers is None:
        broker = cluster.EmbeddedBroker(out / "kafka", out / "broker.log")
        stack.callback(broker.stop)
        servers = broker.servers
        tell(f"an embedded broker listens on {servers}, its data in {broker.data_dir}")
    else:
        tell(
            f"the cluster is {servers} (${cluster.SERVERS_VARIABLE}). Steps that need the embedded broker are omitted:"
        )
        tell("  kill -9 in the middle, old clients (KIP-31), the log directory; the rest is the same")
    return _run_chapters(out, data, servers, broker, starting, stack)


def _start_spark(log: Path) -> Any:
    """Start Spark for a short run: the JVM logs to a file, and uses only its fast compiler."""
    import kafkaframes

    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    own = os.dup(2)
    try:
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 2)
        return kafkaframes.spark.session("flights", master="local[2]", config=config)
    finally:
        os.dup2(own, 2)
        os.close(own)


@contextmanager
def _record_traffic(servers: str, capture: Path) -> Iterator[str]:
    """Start a recording proxy in front of the cluster, as ``kafkaframes record`` does, and return its address."""
    from kafkaframes.capture.recorder import Recorder, RecorderSettings

    host, _, port = servers.partition(",")[0].rpartition(":")
    with open(capture, "wb") as file, Recorder(RecorderSettings("127.0.0.1", (), (host, int(port))), file) as recorder:
        local = recorder.start()
        yield f"{local[0]}:{local[1]}"


def _run_chapters(
    out: Path, data: flights.Flights, servers: str, broker: cluster.EmbeddedBroker | None, starting: Future[Any],
    stack: ExitStack,
) -> tuple[list[str], Path]:  # fmt: skip
    """Run all chapters. Return the summary lines and the page's path."""
    from kafkaframes.client import Admin, NewTopic

    mark = "" if broker is not None else f"-{uuid.uuid4().hex[:8]}"
    topic, planes = f"flights{mark}", f"planes{mark}"
    with Admin(servers) as admin:
        admin.create_topics(
            [
                NewTopic(name=topic, num_partitions=PARTITION_COUNT),
                NewTopic(name=planes, num_partitions=1, configs=PLANES_TOPIC_CONFIG),
            ]
        )
    capture = out / "traffic.pcapng"
    with _record_traffic(servers, capture) as proxy:
        totals = _count_flights(out, data, servers, proxy, broker, starting, topic, planes)
        old = _run_old_clients(data, proxy, broker, topic) if broker is not None else None
    spark = starting.result()
    totals.stop()
    stack.callback(spark.stop)
    lines = [
        f"A producer (librdkafka) sent {len(data.rows):,} flights to a topic, "
        f"and news of {len(data.planes):,} planes to another.",
        f"A streaming query counted them by airline into a Delta table, in {totals.commits} micro-batches.",
        "In the middle, kill -9 ended the broker; it started again with its data."
        if broker is not None
        else "The cluster is yours, so no broker was killed.",
        "No flight was lost and none was counted twice: "
        f"the counts of all {len(data.totals)} airlines are those of the file.",
        f"{_describe_latest_airline(data)}.",
    ]
    if old is not None:
        lines.append(_describe_savings(old))
    with step(f"looking at the recorded traffic ({capture.stat().st_size / 1e6:.0f} MB)"):
        broken_clients = looking.audit(capture, "4.0")
        saved_bytes, responses = looking.kip_636(capture)
    whom = " and ".join(broken_clients) or "none of these clients"
    lines.append(f"The recorded traffic shows that an upgrade to Kafka 4.0 breaks {whom}.")
    lines.append(
        f"With KIP-636 (errors as tagged fields), {responses:,} responses would be {saved_bytes:,} bytes smaller."
    )
    reports: Reports = {
        "The traffic": (out / "traffic.html", "which clients an upgrade breaks, calls, latency, errors")
    }
    if broker is not None:
        broker.stop()
        lines.append(_inspect_log(out, broker.data_dir, planes, data, reports))
    else:
        with Admin(servers) as admin:
            admin.delete_topics([topic, planes])
        lines.append(
            "Your brokers' log directories were not inspected: kafkaframes verify, compact and export do that."
        )
    with step("writing the page"):
        looking.command("report", capture, "-o", out / "traffic.html")
        lines.append(f"The story took {seconds():.0f} seconds.")
        counts_by_name = totals.read()
        missing = [count - counts_by_name.get(name, (0, 0))[0] for name, (count, _) in data.totals.items()]
        tiles = {
            "flights sent": f"{len(data.rows):,}",
            "kill -9": "1" if broker is not None else "0",
            "flights lost": f"{sum(max(0, differs) for differs in missing):,}",
            "counted twice": f"{sum(max(0, -differs) for differs in missing):,}",
            "micro-batches": str(totals.commits),
            "seconds": f"{seconds():.0f}",
        }
        page_path = page.write(
            out,
            tiles=tiles,
            lines=lines,
            events=EVENTS,
            airlines={data.airlines.get(name, name): total for name, total in data.totals.items()},
            reports=reports,
        )
    return lines, page_path


def _count_flights(
    out: Path, data: flights.Flights, servers: str, proxy: str, broker: cluster.EmbeddedBroker | None,
    starting: Future[Any], topic: str, planes: str,
) -> Totals:  # fmt: skip
    """Send the flights, count them, and kill the broker in between."""
    sender = flights.Sender(proxy, flights=topic, planes=planes)
    half, more = len(data.rows) // 2, len(data.rows) * 3 // 4
    with step(f"librdkafka sends {half:,} flights"):
        sender.send(data.rows[:half])
        sender.finish()
    with step("Spark counts them by airline, micro-batch by micro-batch"):
        totals = Totals(starting.result(), servers, topic, out)
        totals.wait_for(1)
    sender.send(data.rows[half:more])
    if broker is not None:
        words = f"kill -9 to the broker, while {more - half:,} more flights are being sent"
        with step(words, "kill"):
            broker.kill()
            sender.send(data.rows[more:])
            broker.start()
        tell("the broker runs again with the same data; librdkafka and Spark continue by themselves")
        note("the broker runs again with the same data")
    else:
        sender.send(data.rows[more:])
    with step("waiting until every flight is acknowledged, and counted"):
        sender.finish()
        totals.wait_for(len(data.rows))
    check(totals.read() == data.totals, f"the table says {totals.read()}, the file {data.totals}")
    return totals


def _describe_latest_airline(data: flights.Flights) -> str:
    """Return the sentence about the airline with the largest mean delay."""
    name, (count, minutes) = max(data.totals.items(), key=lambda item: item[1][1] / item[1][0])
    return f"{data.airlines.get(name, name)} was latest: {minutes / count:.0f} minutes a flight"


def _run_old_clients(data: flights.Flights, proxy: str, broker: cluster.EmbeddedBroker, topic: str) -> migration.Costs:
    """Send flights with old clients, and return what the broker recompressed."""
    rows = data.rows[:OLD_CLIENT_RECORD_COUNT]
    with step(f"old clients join: {len(rows):,} flights in record format 0 (Kafka 0.9), then in format 1 (0.10)"):
        costs = migration.play(proxy, topic, rows, lambda: broker.counter("kafkaframes_bytes_recompressed_total"))
    check(costs.read == len(rows), f"the old consumer read {costs.read:,} of {len(rows):,} flights")
    return costs


def _describe_savings(costs: migration.Costs) -> str:
    """Return the sentence about recompression for old clients."""
    after = f"{costs.after / 1e6:.1f} MB" if costs.after else "nothing"
    return (
        f"A client of Kafka 0.9 (record format 0) made the broker recompress {costs.before / 1e6:.1f} MB; "
        f"one of 0.10 (format 1, KIP-31) made it recompress {after}."
    )


def _inspect_log(out: Path, data_dir: Path, planes: str, data: flights.Flights, reports: Reports) -> str:
    """Verify, compact and export the log directory, and return the sentence about it."""
    with step("the broker has stopped; verifying, compacting and exporting its log directory"):
        counts = looking.log(data_dir, planes, out, expected_count=len(data.planes))
        reports["The log"] = (out / "log.html", "sizes, records over time, record formats, damage")
        looking.command("report", data_dir, "-o", out / "log.html")
    return (
        f"The log is sound after the kill. Compaction keeps {counts['records_kept']:,} of "
        f"{counts['records_read']:,} records of {planes}; all {counts['exported']:,} records were exported to Parquet."
    )


if __name__ == "__main__":
    main()
