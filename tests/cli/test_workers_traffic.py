"""How captures and request logs are divided into tasks."""

import pytest

from kafkaframes.cli import workers as module
from kafkaframes.cli.workers import run_traffic_tasks, split_traffic_tasks
from kafkaframes.errors import OptionError


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "trace.pcap"
    path.write_bytes(bytes(1000))
    return str(path)


def test_a_small_input_is_one_task_and_a_large_one_is_divided(capture, monkeypatch):
    assert [(one.share, one.shares) for one in split_traffic_tasks((capture,), "", 4)[0]] == [(0, 1)]
    monkeypatch.setattr(module, "_MIN_TASK_BYTES", 300)
    tasks, share_bytes = split_traffic_tasks((capture,), "9092,9094-9095", 3)
    assert [(task.share, task.shares) for task in tasks] == [(0, 3), (1, 3), (2, 3)]
    assert (tasks[0].files, tasks[0].ports, share_bytes) == ((capture,), (9092, 9094, 9095), 333)


def test_ports_that_are_not_numbers_are_rejected(capture):
    with pytest.raises(OptionError, match="`ports` x: must be port numbers and ranges"):
        split_traffic_tasks((capture,), "x", 1)


def test_results_have_the_order_of_the_tasks(capture, monkeypatch):
    monkeypatch.setattr(module, "_MIN_TASK_BYTES", 100)
    tasks, share_bytes = split_traffic_tasks((capture,), "", 5)
    assert list(run_traffic_tasks(repr, tasks, share_bytes, on_spark=False, jobs=1)) == list(map(repr, tasks))
