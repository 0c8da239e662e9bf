"""What Kafka's own classes read from the example logs, as rows of ``kafka-log``."""

import base64
import gzip
import hashlib
import json
from pathlib import Path

LOGS = Path(__file__).parents[2] / "examples" / "logs"
EXAMPLE_LOG_DIR = LOGS / "kafka-4.3"
CLICKS = LOGS / "kafka-2.8-format-1"
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def lines_of(log):
    with gzip.open(LOGS / "truth" / f"{log.name}.records.jsonl.gz", "rt") as lines:
        yield from map(json.loads, lines)


def rows_of(log, topic, *, control=False):
    """Return (partition, offset, timestamp in ms, type, key, value, headers) of every record, as a sorted list."""
    rows, batch = [], None
    for line in lines_of(log):
        if line["type"] == "batch":
            batch = line
        elif line["type"] == "record" and batch["topic"] == topic and (control or not batch["control"]):
            rows.append(
                (
                    batch["partition"],
                    line["offset"],
                    line["timestamp"],
                    TIMESTAMP_TYPES[line["ts_type"]],
                    plain(line["key"]),
                    comparable(line["value"]),
                    tuple((name, plain(value)) for name, value in line["headers"]) or None,
                )
            )
    return sorted(rows)


def plain(text):
    return None if text is None else base64.b64decode(text)


def comparable(value):
    """Convert a value of the reference or of a row to one form: long ones to length and digest only."""
    if isinstance(value, dict):
        return (value["len"], value["sha256"])
    value = plain(value) if isinstance(value, str) else value
    if value is None or len(value) <= 200:
        return value
    return (len(value), hashlib.sha256(value).hexdigest())
