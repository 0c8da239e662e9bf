"""Produce through a proxy that delays and closes connections, and compare the log with the producer's results.

    python -m tests.soak.producer_proxy [--runs 500] [--seed 1] [--mode idempotent]

Each run has a seed and a mode: ``idempotent`` and ``transactions`` (acks=all), ``one`` and ``none`` (acks 1 and 0),
with 1 to 5 requests in flight. The proxy delays data by 0 to 30 ms, closes connections before or after a chunk, and
rejects new ones. The log is checked after each run. In the first two modes, the log must contain every acknowledged
record once, at its acknowledged offset and in order, no record that was reported as not written, and no duplicates. A
transaction is complete or absent, as its end was reported. In the other modes, a result must not contain the offset of
another record. Runs must not hang. The command prints the failed runs with their seeds, and exits with status 1 if one
failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from kafkaframes.broker import Broker
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.client import Admin, AsyncProducer, Consumer, NewTopic, RecordMetadata
from kafkaframes.errors import KafkaframesError, MaybeWrittenError

MODES = ("idempotent", "transactions", "one", "none")
PARTITION_COUNT = 2
MAX_DELAY_S = 0.030
HANG_S = 120
CHUNK_BYTES = 1 << 16


@dataclass(slots=True)
class FaultyProxy:
    """A proxy. A proxy that delays chunks and closes connections; ``cuts`` is the probability per chunk."""

    rng: random.Random
    target: int = 0
    cuts: float = 0.0
    refuses: float = 0.0
    longest_s: float = MAX_DELAY_S
    cut_so_far: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def close(self) -> None:
        """End all connections."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in list(self.writers):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        self.writers.add(writer)
        if self.rng.random() < self.refuses:
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        both = (writer, there_writer)
        self.writers.add(there_writer)
        for pair in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.ensure_future(self.carry(*pair, both))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, both: tuple[asyncio.StreamWriter, ...]
    ) -> None:
        """Forward one direction until it ends or is closed before or after a chunk."""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await asyncio.sleep(self.rng.uniform(0, self.longest_s))
                if writer.is_closing():
                    break
                is_cut = self.rng.random() < self.cuts
                if not is_cut or self.rng.random() < 0.5:
                    writer.write(chunk)
                    await writer.drain()
                if is_cut:
                    self.cut_so_far += 1
                    if self.rng.random() < 0.5:  # data in flight to the broker may still arrive
                        await asyncio.sleep(self.rng.uniform(0, self.longest_s))
                    break
        for one in both:
            one.close()


@dataclass(slots=True)
class ProducerOutcome:
    """The producer's results: by partition and number, the offset or the error."""

    results: dict[tuple[int, int], RecordMetadata | BaseException] = field(default_factory=dict)
    aborted_batches: set[tuple[int, int]] = field(default_factory=set)
    unknown: set[tuple[int, int]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def producer_settings(rng: random.Random, mode: str, seed: int) -> dict[str, object]:
    """Return the producer's settings for a run: small batches, short timeouts."""
    settings: dict[str, object] = {
        "linger_ms": rng.choice((0, 1, 5)),
        "batch_size": rng.choice((1, 200, 1000)),
        "max_in_flight_requests_per_connection": rng.randint(1, 5),
        "request_timeout_ms": 3_000,
        "delivery_timeout_ms": rng.choice((200, 600, 60_000, 60_000)),
        "retry_backoff_ms": rng.choice((1, 10, 50)),
        "reconnect_backoff_ms": 1,
        "reconnect_backoff_max_ms": 20,
        "acks": {"one": 1, "none": 0}.get(mode, "all"),
    }
    return settings | ({"transactional_id": f"t{seed}"} if mode == "transactions" else {})


async def send_numbers(producer: AsyncProducer, rng: random.Random, topic: str, numbers: range) -> ProducerOutcome:
    """Send each number to a random partition, and collect the results."""
    sends: list[tuple[tuple[int, int], asyncio.Future[RecordMetadata]]] = []
    outcome = ProducerOutcome()
    for number in numbers:
        target = rng.randrange(PARTITION_COUNT), number
        try:
            future = await producer.send(topic, b"%d" % number, partition=target[0])
        except KafkaframesError as error:
            outcome.results[target] = error
            continue
        sends.append((target, future))
        if rng.random() < 0.1:
            await asyncio.sleep(rng.uniform(0, 0.02))
    results = await asyncio.gather(*(future for _, future in sends), return_exceptions=True)
    outcome.results |= dict(zip((target for target, _ in sends), results, strict=True))
    return outcome


async def send_transactions(producer: AsyncProducer, rng: random.Random, topic: str, numbers: range) -> ProducerOutcome:
    """Send transactions of 20 numbers each, and abort a third of them."""
    whole = ProducerOutcome()
    for first in numbers[::20]:
        await producer.begin_transaction()
        part = await send_numbers(producer, rng, topic, range(first, first + 20))
        whole.results |= part.results
        has_failed = any(isinstance(result, BaseException) for result in part.results.values())
        try:
            if rng.random() < 0.66:
                await producer.commit_transaction()
                if has_failed:
                    whole.faults.append(f"a transaction with a failed record was committed: {first}")
                continue
        except MaybeWrittenError:
            whole.unknown |= part.results.keys()
            break
        except KafkaframesError as error:
            if not has_failed:
                whole.faults.append(f"the transaction of {first} was not committed: {error}")
        whole.aborted_batches |= part.results.keys()
        await producer.abort_transaction()
    return whole


async def run(proxy: FaultyProxy, servers: str, mode: str, *, seed: int, topic: str, records: int) -> ProducerOutcome:
    """Write in one mode while connections are closed. The last requests are sent without faults."""
    rng = random.Random(seed)
    producer = AsyncProducer(servers, **producer_settings(rng, mode, seed))
    await producer.start()
    proxy.rng, proxy.cuts, proxy.refuses = rng, rng.choice((0.02, 0.08, 0.2)), rng.choice((0.0, 0.1, 0.3))
    try:
        async with asyncio.timeout(HANG_S):
            outcome = await (send_transactions if mode == "transactions" else send_numbers)(
                producer, rng, topic, range(records)
            )
            proxy.cuts = proxy.refuses = 0.0
            await producer.close()
    except TimeoutError:
        outcome = ProducerOutcome(faults=["it hangs"])
    finally:
        proxy.cuts = proxy.refuses = 0.0
        await producer.close(flush=False)
    return outcome


def read(servers: str, topic: str) -> dict[int, dict[int, list[int]]]:
    """Return the offsets of each number in each partition, in log order."""
    offsets_by_number: dict[int, dict[int, list[int]]] = {}
    with Consumer(servers, isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(dict.fromkeys(partitions, 0))
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < end for one, end in ends.items()):
            for record in consumer.poll(100):
                offsets_of_number = offsets_by_number.setdefault(record.partition, {})
                offsets_of_number.setdefault(int(record.value or b"0"), []).append(record.offset)
    return offsets_by_number


def find_faults(mode: str, outcome: ProducerOutcome, log: dict[int, dict[int, list[int]]]) -> list[str]:
    """Return the inconsistencies between results and log, as sentences."""
    wrong = list(outcome.faults)
    for (partition, number), result in outcome.results.items():
        offsets = log.get(partition, {}).get(number, [])
        name = f"{number} of partition {partition} ({result!r})"
        if isinstance(result, BaseException):
            if offsets and not isinstance(result, MaybeWrittenError):
                wrong.append(f"reported as not written, and in the log at {offsets}: {name}")
        elif (partition, number) in outcome.aborted_batches:
            if offsets:
                wrong.append(f"aborted, and read at {offsets}: {name}")
        elif (partition, number) in outcome.unknown:
            pass
        elif mode != "none" and result.offset not in offsets:
            wrong.append(f"acknowledged, and in the log at {offsets}: {name}")
        elif mode == "none" and result.offset != -1:
            wrong.append(f"an offset that no result contains: {name}")
    if mode in ("idempotent", "transactions"):
        wrong += find_unordered(log)
    return wrong


def find_unordered(log: dict[int, dict[int, list[int]]]) -> list[str]:
    """Return duplicates, and numbers that follow a later number."""
    wrong = []
    for partition, numbers in log.items():
        wrong += [
            f"{number} of partition {partition} twice: {offsets}"
            for number, offsets in numbers.items()
            if len(offsets) > 1
        ]
        first = [offsets[0] for _, offsets in sorted(numbers.items())]
        if first != sorted(first):
            wrong.append(f"partition {partition} is out of order: {list(numbers)}")
    return wrong


def create(servers: str, topic: str) -> None:
    """Create a run's topic."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=topic, num_partitions=PARTITION_COUNT)])


@contextlib.contextmanager
def run_broker(port: int) -> Iterator[int]:
    """Run a broker that advertises ``port``. Yields the port that it listens on."""
    with Broker(listeners=[ListenerOptions(advertised=("127.0.0.1", port))]) as broker:
        yield broker.port


async def run_seeds(
    seeds: Iterable[int],
    modes: tuple[str, ...],
    *,
    records: int = 120,
    broker: Callable[[int], AbstractContextManager[int]] = run_broker,
) -> Counter[str]:
    """Run all seeds in each mode. Return the number of failed runs by mode, and the event counts.

    Args:
        seeds: seeds of the runs.
        modes: modes, in order.
        records: number of records per run.
        broker: starts a broker that advertises a port, and yields the port that it listens on.
    """
    counts: Counter[str] = Counter()
    proxy = FaultyProxy(random.Random(0))
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with broker(port) as proxy.target:
            for seed in seeds:
                mode, topic, servers = modes[seed % len(modes)], f"run-{seed}", f"127.0.0.1:{port}"
                await asyncio.to_thread(create, servers, topic)
                outcome = await run(proxy, servers, mode, seed=seed, topic=topic, records=records)
                log = await asyncio.to_thread(read, servers, topic)
                judge(f"seed {seed} ({mode})", find_faults(mode, outcome, log), outcome, counts)
            await proxy.close()
    counts["connections cut"] = proxy.cut_so_far
    return counts


def judge(name: str, wrong: list[str], outcome: ProducerOutcome, counts: Counter[str]) -> None:
    """Count a run, and print its inconsistencies."""
    results = outcome.results.values()
    counts["runs"] += 1
    counts["records acknowledged"] += sum(isinstance(result, RecordMetadata) for result in results)
    counts["records of unknown fate"] += sum(isinstance(result, MaybeWrittenError) for result in results)
    counts["records not written"] += sum(
        isinstance(result, BaseException) and not isinstance(result, MaybeWrittenError) for result in results
    )
    if wrong:
        counts["wrong"] += 1
        print(f"{name}: {len(wrong)} differences: {'; '.join(wrong[:3])}", flush=True)


def main() -> None:
    """Run as many seeds as the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: all in turn")
    options = parser.parse_args()
    counts = asyncio.run(run_seeds(range(options.seed, options.seed + options.runs), tuple(options.mode or MODES)))
    print("\n".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    sys.exit(1 if counts["wrong"] else 0)


if __name__ == "__main__":
    main()
