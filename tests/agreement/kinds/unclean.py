"""Kind ``unclean``: a real broker's recovery, recomputed from the directory before it.

The product receives only ``before/``, and the settings of ``server_properties``. It recovers each partition into a
scratch directory. Then every file of every partition is compared with ``after/``, by name and bytes, and each line
about the records with the reference. Three inputs are not in files of ``before/``: the clock (from the broker's log),
the record version of topics whose batches are all of format 0 or 1 (topic settings of brokers before 3.0 are in
ZooKeeper), and the epoch in which the controller elected the broker: in KRaft, one for the fencing and one for the
election.
"""

from __future__ import annotations

import calendar
import gzip
import itertools
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.agreement.corpus import LogCase, log_cases
from tests.agreement.kind import Case, Kind, differences
from tests.agreement.kinds.cleaned import EXPIRATIONS
from tests.agreement.kinds.logs import REFERENCE_SUFFIX, dump_lines, parse_lines
from tests.storage.releases import release_of_version

from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, recover_to

MAX_DIFFERENCES = 40


def _yield_cases(folder: Path) -> Iterator[Case]:
    for case in log_cases(folder, REFERENCE_SUFFIX):
        if case.name.endswith(".after"):
            yield Case(case.name.removesuffix(".after"), case)


def _compare_case(case: LogCase) -> Iterator[str]:
    before = case.directory.parent / "before"
    if not case.truth.is_file() or not before.is_dir():
        yield f"{case.truth} or {before} is missing"
        return
    with tempfile.TemporaryDirectory() as scratch, gzip.open(case.truth) as truth:
        recover_all(before, Path(scratch), json.loads(case.manifest.read_text()))
        yield from _compare_files(case.directory, Path(scratch))
        pairs = itertools.zip_longest(parse_lines(truth), parse_lines(dump_lines(Path(scratch))))
        for number, (expected_line, actual_line) in enumerate(pairs, start=1):
            yield from (f"line {number}: {text}" for text in differences(expected_line, actual_line))


def recover_all(before: Path, scratch: Path, manifest: dict[str, Any]) -> None:
    """Recover every partition of ``before`` into a directory with its name under ``scratch``."""
    (directory,) = discover(str(before))
    for partition in directory.partitions:
        settings = _build_settings(directory, partition, manifest)
        plan = plan_recovery(directory, partition, broker_release=settings.broker_release)
        recover_to(directory, plan, settings, scratch / Path(partition.directory).name)


def _build_settings(directory: LogDirectory, partition: Partition, manifest: dict[str, Any]) -> RecoverySettings:
    properties = manifest["server_properties"]
    magics = manifest["partitions"]["before"].get(Path(partition.directory).name, {}).get("magics", {})
    is_kraft = manifest["mode"] == "kraft"
    known_epochs = [epoch.leader_epoch for epoch in partition.leader_epochs or ()]
    broker_release = release_of_version(manifest["kafka_version"])
    expiration = properties.get(EXPIRATIONS.get(broker_release, "producer.id.expiration.ms"))
    return RecoverySettings(
        now_ms=_read_clock(manifest["recovery_log"]),
        index_interval_bytes=int(properties.get("log.index.interval.bytes", 4096)),
        producer_id_expiration_ms=None if expiration is None else int(expiration),
        record_format=2 if is_kraft else max((int(magic) for magic in magics), default=2),
        new_leader_epoch=max(known_epochs, default=0) + 2,
        broker_release=broker_release,
    )


def _read_clock(account: list[str]) -> int:
    """Return the time of the first line that has one, in milliseconds since 1970 (the lines are in UTC)."""
    for line in account:
        stamp = re.match(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d{3}) ", line)
        if stamp:
            *parts, milliseconds = (int(part) for part in stamp.groups())
            return calendar.timegm(time.struct_time((*parts, 0, 0, 0))) * 1000 + milliseconds
    raise ValueError("the broker's log has no time")


def _compare_files(after: Path, actual_dir: Path) -> Iterator[str]:
    """Compare the partitions' directories: every name, and every byte."""
    expected_files, found_files = _list_files(after), _list_files(actual_dir)
    for name in sorted(expected_files.keys() | found_files.keys()):
        if name not in found_files:
            yield f"{name}: expected a file, found none"
        elif name not in expected_files:
            yield f"{name}: expected no file, found one of {found_files[name].stat().st_size} bytes"
        elif (expected_bytes := expected_files[name].read_bytes()) != (raw := found_files[name].read_bytes()):
            place = next(
                (at for at, (one, other) in enumerate(zip(expected_bytes, raw, strict=False)) if one != other), -1
            )
            at = place if place >= 0 else min(len(expected_bytes), len(raw))
            yield f"{name}: expected {len(expected_bytes)} bytes, found {len(raw)}; they differ from byte {at} on"


def _list_files(directory: Path) -> dict[str, Path]:
    """Return the files of the partitions, by name within the log directory. Files in its root belong to the broker."""
    return {
        path.relative_to(directory).as_posix(): path
        for path in directory.rglob("*")
        if path.is_file() and path.parent != directory
    }


def _disagreements(case: Case) -> Iterator[str]:
    yield from itertools.islice(_compare_case(case.payload), MAX_DIFFERENCES)


KIND = Kind("unclean", ("logs",), _yield_cases, _disagreements)
