"""Partitions are chosen as by Kafka 4.3.1's partitioners, for random keys, partitions without a leader and queues of
any length.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from tests.interop import brokers

from kafkaframes.client.partitioners import configure_partitioner, weigh_queues
from kafkaframes.records.partitioner import partition_of

SOURCE = Path(__file__).parent / "java" / "partitioners" / "ProbePartitioners.java"
PACKAGE = "org.apache.kafka.clients.producer.internals"
VERSION = "4.3.1"
RANDOM = random.Random(20_260)


@pytest.fixture(scope="module")
def probe(oracle, tmp_path_factory):
    """A function that runs Kafka's partitioners on input lines. The function returns a result for each line."""
    libraries = brokers.kafka_or_skip(oracle, VERSION).module.fetch(VERSION)
    folder = tmp_path_factory.mktemp("partitioners")
    classpath = f"{folder}:{libraries}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", folder, SOURCE], check=True, timeout=300)

    def run(lines: list[str]) -> list[str]:
        (folder / "lines").write_text("\n".join(lines))
        command = ["java", "-cp", classpath, f"{PACKAGE}.ProbePartitioners", str(folder / "lines")]
        process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        answers = [line for line in process.stdout.splitlines() if line[:1].isdigit()]
        assert len(answers) == len(lines)
        return answers

    return run


def test_keys_are_partitioned_as_by_kafka(probe):
    keys = [RANDOM.randbytes(RANDOM.randrange(0, 70)) for _ in range(3_000)]
    counts = [RANDOM.choice([1, 2, 3, 7, 50, 1_000]) for _ in keys]
    answers = probe([f"key {key.hex()} {count}" for key, count in zip(keys, counts, strict=True) if key])
    expected_partitions = [str(partition_of(key, count)) for key, count in zip(keys, counts, strict=True) if key]
    assert answers == expected_partitions


def test_sticky_partitions_equal_kafkas(probe):
    cases = []
    for _ in range(200):
        count = RANDOM.randrange(1, 12)
        available = sorted(RANDOM.sample(range(count), RANDOM.randrange(0, count + 1)))
        cases.append((count, available))
    lines = [f"turns {count} {','.join(map(str, available)) or '-'} 40" for count, available in cases]
    for (count, available), answer in zip(cases, probe(lines), strict=True):
        choice = configure_partitioner("round_robin", ignores_keys=False)
        ours = [choice.choose("t", None, None, count, available) for _ in range(40)]
        assert ",".join(map(str, ours)) == answer, (count, available)


def test_queue_lengths_are_weighted_as_in_kafka(probe):
    """If all queues have the same length, Kafka chooses uniformly, without weights."""
    cases = [[RANDOM.choice([0, 0, 1, 2, 5, 40]) for _ in range(RANDOM.randrange(2, 9))] for _ in range(300)]
    cases = [lengths for lengths in cases if len(set(lengths)) > 1]
    for lengths, answer in zip(cases, probe([f"queues {','.join(map(str, each))}" for each in cases]), strict=True):
        assert ",".join(map(str, weigh_queues(lengths))) == answer, lengths
