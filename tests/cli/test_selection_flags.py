"""Commands select records by the same flags as functions do by keywords, and reject flags that do not apply."""

import json
from pathlib import Path

import pytest
from tests.cli.calling import ask, ask_or_raise

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.errors import OptionError

LOGS = Path(__file__).parent.parent / "data" / "logs"
TRANSACTIONS = LOGS / "kraft-4x-transactions"


def grep(*flags: str) -> list[int]:
    arguments = ("grep", "", str(TRANSACTIONS), "--topic", "ledger", "--json", *flags)
    return [json.loads(line)["offset"] for line in ask(*arguments).stdout.splitlines()]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("control_records", [False, True])
def test_grep_reads_the_transactions_that_a_scan_reads(isolation, control_records):
    scan = kafkaframes.scan_log(
        TRANSACTIONS, topics="ledger", isolation=isolation, control_records=control_records
    ).select("offset")
    flags = ["--isolation", isolation, *(["--control-records"] if control_records else [])]
    assert grep(*flags) == scan.to_arrow()["offset"].to_pylist()


def test_following_rejects_unsupported_selections():
    for flags in (("--isolation", "read_committed"), ("--control-records",), ("--on-damage", "drop")):
        with pytest.raises(OptionError, match=f"{flags[0]} cannot be combined with --follow"):
            ask_or_raise("grep", "x", str(TRANSACTIONS), "--follow", *flags)


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (("--start", "1", "--end", "3"), [1, 2]),
        (("--start", "latest"), []),
        (("--end", "earliest"), []),
        (("--start", "earliest", "--end", "latest"), [0, 1, 2, 3]),
    ],
)
def test_dump_log_supports_a_range(tmp_path, flags, offsets):
    segment = tmp_path / "t-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(kafkaframes.build_records({"value": [b"v"] * 4}))
    printed = ask("dump-log", str(segment), "-f", r"%o\n", *flags).stdout
    assert [int(line) for line in printed.splitlines()] == offsets
    with pytest.raises(OptionError, match="--offset cannot be combined"):
        ask_or_raise("dump-log", str(segment), "--offset", "1", *flags)


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("verify", "--isolation"),
        ("verify", "--on-damage"),
        ("convert", "--isolation"),
        ("compact", "--start"),
        ("compact", "--end"),
        ("info", "--start"),
        ("dump-log", "--isolation"),
    ],
)
def test_a_flag_without_a_meaning_is_unknown(command, flag):
    result = ask(command, str(TRANSACTIONS), flag, "1")
    assert result.exit_code == 2
    assert "No such option" in result.output


def test_consume_supports_a_range(tmp_path):
    with Broker() as broker:
        broker.create_topic("t", 1)
        with kafkaframes.Producer(broker.bootstrap_servers) as producer:
            for number in range(6):
                producer.send("t", b"v", timestamp_ms=1_700_000_000_000 + number * 1000)
            producer.flush()

        def consume(*flags: str) -> list[int]:
            arguments = ("consume", "t", "-e", "-f", r"%o\n", "-b", broker.bootstrap_servers, *flags)
            return [int(line) for line in ask_or_raise(*arguments).stdout.splitlines()]

        assert consume("--start", "2", "--end", "4") == [2, 3]
        assert consume("--start", "2023-11-14T22:13:22Z") == [2, 3, 4, 5]
        assert consume("--end", "2023-11-14T22:13:22Z") == [0, 1]
        assert consume("--start", "latest") == []
        assert consume("--end", "earliest") == []
        for flags, message in (
            (("--start", "7"), "`?-*start`?: offset 7 of t-0 is beyond the log's end 6"),
            (("--end", "7"), "beyond the log's end 6"),
            (("--start", "1", "--offset", "2"), "--offset cannot be combined"),
            (("--start", "1", "-g", "g"), "--start cannot be combined with -g"),
        ):
            with pytest.raises(OptionError, match=message):
                consume(*flags)


def test_consume_reads_several_topics_by_name_and_pattern():
    with Broker() as broker:
        for topic, partitions in (("orders-eu", 2), ("orders-us", 1), ("users", 1)):
            broker.create_topic(topic, partitions)
        with kafkaframes.Producer(broker.bootstrap_servers) as producer:
            for topic, partition, count in (
                ("orders-eu", 0, 3),
                ("orders-eu", 1, 2),
                ("orders-us", 0, 5),
                ("users", 0, 1),
            ):
                for _ in range(count):
                    producer.send(topic, b"v", partition=partition)
            producer.flush()

        def consume(*flags: str) -> list[str]:
            arguments = ("consume", "-e", "-f", r"%t-%p@%o\n", "-b", broker.bootstrap_servers, *flags)
            return sorted(ask_or_raise(*arguments).stdout.split())

        every = ["orders-eu-0@0", "orders-eu-0@1", "orders-eu-0@2", "orders-eu-1@0", "orders-eu-1@1"]
        every += [f"orders-us-0@{offset}" for offset in range(5)]
        assert consume("orders-*") == consume("-t", "orders-*") == consume("orders-eu", "--topic", "orders-us") == every
        assert consume("-t", "users", "-t", "users") == ["users-0@0"]
        assert consume("orders-*", "-p", "1") == ["orders-eu-1@0", "orders-eu-1@1"]
        # Partitions with the same number in different topics have separate ends.
        ranges = ("--start", "earliest", "--end", "2")
        assert consume("orders-*", "-p", "0", *ranges) == [
            *("orders-eu-0@0", "orders-eu-0@1", "orders-us-0@0", "orders-us-0@1")
        ]
        for flags, message in (
            ((), "topics are missing; specify TOPIC or --topic"),
            (("order-*",), r"no topic order-\*: did you mean orders-"),
            (("orders-*", "-p", "7"), "no selected topic has the partition 7"),
            (("users", "-p", "7"), "topic users does not have partition 7; it has 1"),
        ):
            with pytest.raises(OptionError, match=message):
                consume(*flags)
