"""``logs``: every batch, record, error and end of every segment of a log directory, in file order.

The product receives the log directory and prints ``dump-log --format jsonl``. Each line is compared with that of
Kafka's own classes in every field. Excluded are Kafka's texts (``class`` and ``message`` of an error, the value of
``field_error``) and the order of keys.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.agreement.corpus import LogCase, log_cases
from tests.agreement.kind import Case, Kind, differences

REFERENCE_SUFFIX = ".records.jsonl.gz"
TEXT_FIELDS = ("class", "message")
MAX_DIFFERENCES = 40  # a missing line shifts all later lines


def _yield_cases(folder: Path) -> Iterator[Case]:
    for case in log_cases(folder, REFERENCE_SUFFIX):
        yield Case(case.name, case)


def parse_lines(texts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the lines to compare, without Kafka's texts."""
    for text in texts:
        line = json.loads(text)
        if "field_error" in line:
            line["field_error"] = True
        yield {key: value for key, value in line.items() if line["type"] != "error" or key not in TEXT_FIELDS}


def dump_lines(directory: Path) -> Iterator[bytes]:
    """Yield our description of a log directory, line by line."""
    from kafkaframes.jobs.dump.jsonl import dump_json_lines

    for chunk in dump_json_lines([str(directory)]):
        yield from bytes(chunk).splitlines()


def _compare_case(case: LogCase) -> Iterator[str]:
    problem = case.problem()
    if problem:
        yield problem
        return
    with gzip.open(case.truth) as truth:
        pairs = itertools.zip_longest(parse_lines(truth), parse_lines(dump_lines(case.directory)))
        place = "the beginning"
        for number, (expected_line, actual_line) in enumerate(pairs, start=1):
            if expected_line is None or actual_line is None:
                yield f"line {number} after {place}: expected {expected_line}, found {actual_line}"
            else:
                yield from (f"line {number} after {place}: {text}" for text in differences(expected_line, actual_line))
            if expected_line and "segment" in expected_line:
                position = expected_line.get("position", expected_line["type"])
                place = f"{expected_line['directory']}/{expected_line['segment']} {position}"


def _disagreements(case: Case) -> Iterator[str]:
    yield from itertools.islice(_compare_case(case.payload), MAX_DIFFERENCES)


KIND = Kind("logs", ("logs", "examples"), _yield_cases, _disagreements)
