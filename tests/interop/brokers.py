"""Run Apache Kafka's brokers on a directory of this package: start, read, append and stop cleanly, with the expected
results.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN_INDEX, TRANSACTIONAL
from kafkaframes.records.scan import BatchHeaders, ScanEnd
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import read_transactions

VERSIONS = ("3.9.1", "4.3.1")
# texts in error lines of the log that only a slow machine causes
SLOWNESS_TEXTS = ("EventPerformanceMonitor", "timed out before sending")
Record = tuple[Any, ...]


def real_kafka(oracle: Path) -> ModuleType:
    """Return the judges' module that fetches, starts and stops brokers."""
    spec = importlib.util.spec_from_file_location("real_kafka", oracle.parent / "real_kafka.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class KafkaFactory:
    """Creates nodes of a Kafka version: ``with kafka(path) as node`` runs one on ``path/data`` and stops it cleanly."""

    module: ModuleType
    version: str

    def __call__(self, path: Path, properties: Mapping[str, object] | None = None, *, heap: str = "512m") -> Any:
        """Create a node, with a long timeout for busy machines."""
        return self.module.RealKafka(self.version, path, properties, heap=heap, start_timeout=300, stop_timeout=300)


def kafka_or_skip(oracle: Path, version: str) -> KafkaFactory:
    """Return the factory of nodes of a version. The test is skipped if Kafka's jars cannot be fetched."""
    module = real_kafka(oracle)
    try:
        module.fetch(version)
    except module.KafkaFailed as failure:
        pytest.skip(f"Kafka {version} cannot be fetched: {failure}")
    return KafkaFactory(module, version)


def add_sasl_listener(node: Any, port: int, passwords: Mapping[str, str]) -> None:
    """Give a node that is not started yet a second listener with PLAIN authentication."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    node.properties |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},SASL_PLAINTEXT://127.0.0.1:{port},"
        f"CONTROLLER://127.0.0.1:{node._second_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port},SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
    }


@dataclass
class ClientResults:
    """A client's results."""

    cluster_id: str = ""
    topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    records: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    groups: dict[tuple[str, str, int], int] = field(default_factory=dict)


def parse(text: str) -> ClientResults:
    """Read the lines of ``ReadCluster``."""
    cluster = ClientResults()
    for line in text.splitlines():
        kind, *words = line.split("\t")
        if kind == "cluster":
            cluster.cluster_id = words[0]
        elif kind == "topic":
            cluster.topics[words[0]] = (words[1], int(words[2]))
        elif kind == "config":
            cluster.configs.setdefault(words[0], {})[words[1]] = words[2]
        elif kind == "ends":
            cluster.ends[words[0], int(words[1])] = (int(words[2]), int(words[3]))
        elif kind == "group":
            cluster.groups[words[0], words[1], int(words[2])] = int(words[3])
        elif kind == "record":
            topic, partition, offset, timestamp, stamp, key, value, headers = words
            record = (int(offset), int(timestamp), stamp, key, value, headers)
            cluster.records.setdefault((topic, int(partition)), []).append(record)
    return cluster


def read_expected_records(
    path: str | Path, *, isolation: str = "read_uncommitted"
) -> dict[tuple[str, int], list[Record]]:
    """Return the records that a consumer gets from each partition of a log directory, read with this package."""
    (directory,) = discover(str(path))
    records_by_partition = {}
    for partition in directory.partitions:
        if partition.is_live and partition.topic != "__cluster_metadata":
            records = list(_records(directory, partition, isolation))
            if records:
                records_by_partition[partition.topic, partition.partition] = records
    return records_by_partition


def _records(directory: LogDirectory, partition: Partition, isolation: str) -> Iterator[Record]:
    import kafkaframes

    columns = ["offset", "timestamp", "timestamp_type", "key", "value", "headers", "base_offset", "producer_id"]
    state = read_transactions(LocalFileSystem(), partition, use_indexes=False)
    end = state.end_offset_for(isolation)
    paths = [segment.path for segment in partition.segments]
    batches = kafkaframes.read_records(
        paths, columns=[*columns, "transactional"], control_records=False, start=partition.log_start_offset, end=end
    )
    for batch in batches:
        rows = batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pydict()
        table = np.zeros((len(BATCH_COLUMNS), batch.num_rows), np.int64)  # one record per batch
        table[COLUMN_INDEX["magic"]] = 2
        table[COLUMN_INDEX["attributes"]] = np.array(rows["transactional"], bool) * TRANSACTIONAL
        table[COLUMN_INDEX["base_offset"]], table[COLUMN_INDEX["producer_id"]] = (
            rows["base_offset"],
            rows["producer_id"],
        )
        aborted_mask = state.mask_aborted_batches(BatchHeaders(table, ScanEnd(0, 0))) & (isolation == "read_committed")
        for number in np.flatnonzero(~aborted_mask).tolist():
            yield _words({name: rows[name][number] for name in columns})


def _words(row: dict[str, Any]) -> Record:
    stamp = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[row["timestamp_type"]]
    headers = "".join(f"{header['key']}={_hex(header['value'])};" for header in row["headers"] or ())
    timestamp = -1 if row["timestamp"] is None else row["timestamp"]
    return row["offset"], timestamp, stamp, _hex(row["key"]), _hex(row["value"]), headers


def _hex(raw: bytes | None) -> str:
    return "-" if raw is None else raw.hex()


def read(
    java: Callable[..., str], node: Any, *, isolation: str = "read_uncommitted", append_count: int = 0
) -> ClientResults:
    """Read a live cluster completely, then append ``append_count`` records to each partition of the users' topics."""
    return parse(java("ReadCluster", node.bootstrap, isolation, str(append_count)))


def user_topics(by_partition: Mapping[Any, Any]) -> dict[Any, Any]:
    """Remove Kafka's internal topics."""
    return {key: value for key, value in by_partition.items() if not key[0].startswith("__")}


def run_command(*arguments: str | Path | int) -> str:
    """Run a kafkaframes command, and return its output."""
    process = subprocess.run(
        [sys.executable, "-m", "kafkaframes", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def check_directory(data: Path) -> None:
    """Check that the directory is valid after the broker's clean shutdown, and that Kafka treated none of its
    partitions as stray. Transactions that are open in the source are still open.
    """
    assert (data / ".kafka_cleanshutdown").exists()
    assert not [path for path in data.iterdir() if path.name.endswith(("-stray", "-delete"))]
    findings = verify(discover(str(data))).findings
    assert [str(each) for each in findings if each.severity > Severity.NOTE and each.check != "open-transaction"] == []
    run_command("info", data)


def errors_in(log_text: str) -> list[str]:
    """Return the errors in a broker's log, except those that only a busy machine causes."""
    lines = [line for line in log_text.splitlines() if " ERROR " in line]
    return [line for line in lines if not any(words in line for words in SLOWNESS_TEXTS)]
