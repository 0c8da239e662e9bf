"""A fault that never happened fails its test by name, and failures show the test's own line.

pytest_httpx fails such a test in its teardown, which some editors do not show (pytest_httpx#178); respx#224 and
pytest_httpx#17 are about unreadable names.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import get_type_hints

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.testing import SchemaRegistry, assert_records, plugin

TEST_MODULE = """
import unittest

import pytest

from kafkaframes import Broker
from kafkaframes.client import Producer


def produce(broker, topic):
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"paid").result(60)


def test_misspelt_topic(kafka_broker):
    kafka_broker.on("Produce", topic="ordres").once().drop_reply()
    produce(kafka_broker, "orders")


def test_disk(kafka_broker):
    kafka_broker.on_disk("write", path="*/ordres-0/*").full()


def test_not_enough_requests(kafka_broker):
    kafka_broker.on("Produce").after(5).error("REQUEST_TIMED_OUT")
    produce(kafka_broker, "orders")


def test_removed(kafka_broker):
    kafka_broker.on("Produce").close().remove()
    kafka_broker.on("Fetch").ignore()
    kafka_broker.clear_faults()


def test_with_block(kafka_broker):
    with kafka_broker.on("Fetch", topic="ordres").close():
        pass
    raise RuntimeError("the block has failed before")


def test_with_block_of_the_disk(kafka_broker):
    with kafka_broker.on_disk("fsync").error():
        pass


def test_session_rule(kafka_broker_session):
    kafka_broker_session.on("Produce", topic="of-the-session").close()


def test_after_session_rule_passes(kafka_broker_session):
    assert kafka_broker_session.unused_rules() == []
    produce(kafka_broker_session, "of-the-session")


def test_own_failure(kafka_broker):
    kafka_broker.on("Produce", topic="ordres").close()
    assert 1 == 2, "its own failure"


def test_own_failure_in_a_block(kafka_broker):
    with kafka_broker.on("Produce", topic="ordres").close():
        raise RuntimeError("its own error")


@pytest.mark.xfail(strict=True)
def test_expected_to_fail_xfails(kafka_broker):
    kafka_broker.on("Produce", topic="ordres").close()


def test_skipped(kafka_broker):
    kafka_broker.on("Produce", topic="ordres").close()
    pytest.skip("skipped on the way")


def test_optional_passes(kafka_broker):
    kafka_broker.on("Produce", topic="ordres", optional=True).close()
    kafka_broker.on_disk("write", path="*nothing*", optional=True).error()
    with kafka_broker.on("Fetch", optional=True).close():
        pass


def test_watching_passes(kafka_broker):
    rule = kafka_broker.on("Produce", topic="ordres")
    produce(kafka_broker, "orders")
    assert (rule.count, rule.requests) == (0, [])


def test_a_fault_that_happened_passes(kafka_broker):
    with kafka_broker.on("Produce").error("NOT_LEADER_OR_FOLLOWER").once() as rule:
        produce(kafka_broker, "orders")
    assert rule.count == rule.occurrences == len(rule.requests) == 1


def test_own_broker_passes():
    with Broker() as broker:
        with broker.on("Produce").close():
            pass
        broker.on_disk("write", path="*nothing*").error()
        assert len(broker.unused_rules()) == 2


def test_line_of_the_test(kafka_broker):
    kafka_broker.create_topic("orders")
    kafka_broker.create_topic("orders")  # this line


class Case(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka_broker):
        self.broker = kafka_broker

    def test_unittest_own_failure(self):
        self.broker.on("Produce", topic="ordres").close()
        self.assertEqual(1, 2)

    def test_unittest(self):
        self.broker.on("Produce", topic="ordres").close()
"""


@pytest.fixture(scope="module")
def failure_reports(tmp_path_factory):
    """Return pytest's output about each failed test."""
    directory = tmp_path_factory.mktemp("run")
    (directory / "test_it.py").write_text(TEST_MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--rootdir", str(directory), "-p", "no:cacheprovider"]
    # the installed metadata can be older than the plugin
    if "kafkaframes" not in entry_points(group="pytest11").names:
        command += ["-p", "kafkaframes.testing.plugin"]
    process = subprocess.run([*command, str(directory)], capture_output=True, text=True, timeout=240, cwd=directory)
    return process.stdout


def get_failure_section(output, name):
    """Return pytest's output about a failed test."""
    _, _, text = output.partition(f" {name} __")
    assert text, output
    return text.partition("\n____")[0].partition("\n====")[0]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test_misspelt_topic", ['topic="ordres").once().drop_reply()', "none of 1 Produce request matched"]),
        ("test_disk", ['on_disk("write", path="*/ordres-0/*").full()']),
        ("test_not_enough_requests", ['.after(5).error("REQUEST_TIMED_OUT")', "matched 1 time, without a fault"]),
        ("test_removed", ["2 faults never happened", 'on("Produce").close()', 'on("Fetch").ignore()']),
        ("test_with_block", ['on("Fetch", topic="ordres").close()']),
        ("test_with_block_of_the_disk", ['on_disk("fsync").error("EIO")']),
        ("test_session_rule", ['on("Produce", topic="of-the-session").close()']),
        ("Case.test_unittest", ['on("Produce", topic="ordres").close()']),
    ],
)  # fmt: skip
def test_a_fault_that_never_happened_fails_its_test_by_name(failure_reports, name, lines):
    section_text = get_failure_section(failure_reports, name)
    for line in ("never happened", "optional=True", *lines):
        assert line in section_text
    assert "test_it.py:" in section_text
    assert "the block has failed before" not in section_text.replace(
        'raise RuntimeError("the block has failed before")', ""
    )
    assert f"FAILED test_it.py::{name.replace('.', '::')}" in failure_reports


def test_other_tests_pass_or_keep_their_own_failure(failure_reports):
    assert "10 failed" not in failure_reports.splitlines()[-1]
    for name in ("test_own_failure", "test_own_failure_in_a_block", "Case.test_unittest_own_failure"):
        section_text = get_failure_section(failure_reports, name)
        assert "never happened" not in section_text
    assert "its own failure" in get_failure_section(failure_reports, "test_own_failure")
    assert "its own error" in get_failure_section(failure_reports, "test_own_failure_in_a_block")
    results = dict(
        line.split(" ", 1)[::-1] for line in failure_reports.splitlines() if " test_it.py::" in line and "[" not in line
    )
    passed_tests = {name.split("::", 1)[1] for name, result in results.items() if result == "PASSED"}
    assert passed_tests == {
        "test_optional_passes", "test_watching_passes", "test_a_fault_that_happened_passes", "test_own_broker_passes",
        "test_after_session_rule_passes",
    }  # fmt: skip
    assert "ERROR test_it.py" not in failure_reports
    assert "1 skipped" in failure_reports
    assert "1 xfailed" in failure_reports


def test_a_failure_shows_only_the_line_of_the_test(failure_reports):
    section_text = get_failure_section(failure_reports, "test_line_of_the_test")
    assert '>       kafka_broker.create_topic("orders")  # this line' in section_text
    assert "kafkaframes/broker" not in section_text
    assert "requests of kafka_broker" in get_failure_section(failure_reports, "test_misspelt_topic")


def test_objects_have_a_one_line_repr():
    with Broker() as broker:
        assert repr(broker) == f"<Broker {broker.bootstrap_servers}>"
        broker.create_topic("orders", 2, retention_ms=1000)
        broker.append("orders", [{"key": b"k", "value": b"x" * 1000, "headers": [("h", b"1")], "timestamp": 5}])
        assert repr(broker.topics["orders"]) == "<Topic orders: 2 partitions, end offsets 1, 0, retention.ms=1000>"
        (record,) = broker.records("orders")
        assert repr(record) == f"<Record 0: key=b'k', value={b'x' * 60!r}... (1,000 bytes), timestamp=5, h=b'1'>"
        rule = (
            broker.on("Produce", topic="orders", where=lambda request: True).after(1).once().error("REQUEST_TIMED_OUT")
        )
        with Producer(broker.bootstrap_servers) as producer:
            for _ in range(2):
                producer.send("orders", b"paid").result(60)
        assert rule.count == 2
        text = repr(rule)
        assert text.startswith('<on("Produce", topic="orders", where=<<lambda> at ')
        assert text.endswith('.after(1).once().error("REQUEST_TIMED_OUT"): 2 matched, happened once>')
        rule.remove()
        assert "\n" not in text
        state = broker.call(lambda state: state)
        assert repr(state.topics["orders"]) == "<Topic orders: 2 partitions>"
        end = broker.topics["orders"].end_offsets[0]
        assert repr(state.topics["orders"].partitions[0]) == f"<Partition orders-0: end offset {end}, leader 1>"
    assert repr(broker) == "<Broker not running>"


def test_fixtures_have_types_for_editors():
    from collections.abc import Iterator

    names = {"Broker": Broker, "SchemaRegistry": SchemaRegistry, "Iterator": Iterator}
    for fixture, kind in (
        (plugin.kafka_broker, Broker),
        (plugin.kafka_broker_session, Broker),
        (plugin.schema_registry, SchemaRegistry),
    ):
        function = getattr(fixture, "__wrapped__", None) or fixture._get_wrapped_function()
        assert get_type_hints(function, localns=names)["return"] == Iterator[kind]


@pytest.fixture(scope="module")
def ordered_rows():
    with Broker() as broker:
        rows = [{"key": b"%d" % n, "value": b"v%d" % n, "headers": [("h", b"1")], "timestamp": n} for n in range(20)]
        broker.append("orders", rows)
        yield broker.records("orders")


def test_records_are_compared_by_the_given_fields(ordered_rows):
    assert_records(ordered_rows, [{"key": str(n), "value": f"v{n}"} for n in range(20)])
    assert_records(ordered_rows, [b"v%d" % n for n in range(20)])
    assert_records(ordered_rows[:1], [{"headers": {"h": "1"}, "timestamp": 0, "offset": 0}])
    assert_records(reversed(ordered_rows), [f"v{n}" for n in range(20)], in_order=False)
    assert_records(ordered_rows[:2], [{"key": "0"}, {"value": "v1"}])
    assert_records([], [])
    with pytest.raises(TypeError, match="no field 'vlaue'"):
        assert_records(ordered_rows, [{"vlaue": b"v0"}])


@pytest.mark.parametrize("in_order", [True, False])
def test_records_that_differ_are_shown_one_by_one(ordered_rows, in_order):
    expected_values = [f"v{n}" for n in range(20) if n != 7]
    expected_values[10] = "other"
    with pytest.raises(AssertionError) as caught:
        assert_records(ordered_rows, expected_values, in_order=in_order)
    lines = str(caught.value).splitlines()
    assert lines[0] == "records differ: 19 expected, 20 found (- expected, + found)"
    different = [line.split()[0] + line.split()[-1] for line in lines[1:] if line[0] in "+-"]
    assert sorted(different) == ["+value=b'v11'", "+value=b'v7'", "-value=b'other'"]
    assert len(lines) < 16


@pytest.mark.parametrize("expected_values", [[], ["v0", "v1"], ["v1", "v0", "v2"], [None, "v1", "v2"]])
def test_missing_additional_and_other_records_are_differences(ordered_rows, expected_values):
    with pytest.raises(AssertionError, match="records differ"):
        assert_records(ordered_rows[:3], expected_values)
