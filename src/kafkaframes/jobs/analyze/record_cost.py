"""What the records of a capture take in each record format: those produced, and those fetched."""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkaframes.capture.bodies import REQUEST, WITH_RECORDS, Decoded, binary_places, is_known, sets_of_records
from kafkaframes.capture.records import joined_sets
from kafkaframes.jobs.analyze.records import RecordSizes
from kafkaframes.jobs.analyze.traffic import Task, captured_calls
from kafkaframes.records.scan import scan_all

PRODUCED, FETCHED = "produced", "fetched"
_KEYS: Final = {
    direction: frozenset(key for key, one in WITH_RECORDS if one == direction) for _, direction in WITH_RECORDS
}


def measure_records(task: Task) -> dict[str, RecordSizes]:
    """Measure the records in a task's share of captures, those produced and those fetched apart.

    A record that was produced and then fetched is in both. Request logs hold no records.
    """
    found = {PRODUCED: RecordSizes(), FETCHED: RecordSizes()}
    for calls in captured_calls(task):
        for direction, keys in _KEYS.items():
            for key, version, rows in calls.groups(direction, only=keys.__contains__):
                if is_known(key, version, direction):
                    decoded = Decoded(*calls.bytes_of(direction, rows), key, version, direction)
                    _add(decoded, found[PRODUCED if direction == REQUEST else FETCHED])
    return found


def _add(decoded: Decoded, sizes: RecordSizes) -> None:
    assert decoded.plan is not None
    for _, blobs in sets_of_records(decoded.body, decoded.plan, np.arange(decoded.count)):
        data, _ = joined_sets(*binary_places(blobs))
        if len(data):
            sizes.add(data, scan_all(data))
