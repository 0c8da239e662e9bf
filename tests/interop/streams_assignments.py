"""Get task assignments of streams groups from Kafka 4.3.1's StickyTaskAssignor.

``python -m tests.interop.streams_assignments`` saves the assignments for the tests without Java.
"""

from __future__ import annotations

import gzip
import subprocess
from itertools import islice

from tests.coordination.groups.task_assignments import SAVED_ASSIGNMENTS, random_cases
from tests.interop.releases import JAVA_SOURCES, SLF4J_COORDINATE, fetch

_COUNT, _MAX_TEXT = 300, 700


def judge_groups(lines: list[str]) -> list[str]:
    """Return the assignments of groups by Kafka's assignor."""
    names = ("kafka-group-coordinator", "kafka-clients")
    jars = [*(fetch(f"org.apache.kafka:{name}:4.3.1") for name in names), fetch(SLF4J_COORDINATE)]
    command = ["java", "-cp", ":".join(map(str, jars)), str(JAVA_SOURCES / "groups" / "TaskAssignments.java")]
    text = "".join(f"{line}\n" for line in lines)
    process = subprocess.run(command, input=text, check=True, capture_output=True, text=True, timeout=300)
    return process.stdout.splitlines()


def save_assignments() -> None:
    """Write small groups with Kafka's assignments."""
    texts = (case.text() for case in random_cases(1071))
    lines = list(islice((text for text in texts if len(text) < _MAX_TEXT), _COUNT))
    saved_text = "".join(f"{line}\t{answer}\n" for line, answer in zip(lines, judge_groups(lines), strict=True))
    SAVED_ASSIGNMENTS.write_bytes(gzip.compress(saved_text.encode(), mtime=0))


if __name__ == "__main__":
    save_assignments()
