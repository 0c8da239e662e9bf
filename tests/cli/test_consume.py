"""``kafkaframes consume``: JSON lines that ``produce`` reads back, and mistakes."""

import json

import pytest

from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.errors import BrokerError, OptionError
from kafkaframes.records.limits import current_budget


def test_json_lines_can_be_produced_again(run):
    run("topics create from to")
    run("produce from", stdin=b"\xff\x00bytes\nmore\n")
    lines = run("consume from -e --format jsonl").stdout_bytes
    run("produce to --format jsonl", stdin=lines)
    drop = ("topic", "offset", "partition")
    first, second = (
        sorted(json.dumps({key: value for key, value in json.loads(line).items() if key not in drop}) for line in got)
        for got in (lines.splitlines(), run("consume to -e --format jsonl").stdout_bytes.splitlines())
    )
    assert first == second
    assert len(first) == 2


def test_errors_are_one_line(run):
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        run("consume nothere -e")
    with pytest.raises(OptionError, match="unknown '%q'"):
        run("consume t -e -f %q")


def test_the_budget_applies_to_the_thread_that_opens_batches(run, monkeypatch):
    """The memory budget applies on the client's own thread, too, which decodes the batches."""
    budgets = []
    read = FetchedBatches.read

    def noting(self, *arguments, **options):
        budgets.append(current_budget())
        return read(self, *arguments, **options)

    monkeypatch.setattr(FetchedBatches, "read", noting)
    run("topics create budget")
    run("produce budget", stdin=b"a\n")
    assert run("consume budget -e --budget 3m").stdout == "a\n"
    assert set(budgets) == {3 << 20}
