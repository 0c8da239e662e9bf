"""The embedded broker and Kafka 4.3.1 answer 20,000 random requests without an unnamed difference.

Run ``python -m tests.interop.random_differential --seed S --requests N`` for other seeds. A failed test prints the
difference with the shortest sequence of requests that causes it.
"""

from __future__ import annotations

import os

import pytest
from tests.interop.random_differential import __main__ as command
from tests.interop.random_differential.share import lock_episode

REQUEST_COUNT = int(os.environ.get("KAFKAFRAMES_RANDOM_REQUESTS", "20000"))
SHARE_REQUEST_COUNT = int(os.environ.get("KAFKAFRAMES_SHARE_REQUESTS", "2000"))


@pytest.mark.timeout(1800)
def test_share_groups_respond_as_in_kafka(oracle, capsys):
    status = command.main(["--seed", "1", "--requests", str(SHARE_REQUEST_COUNT), "--share"])
    assert not status, capsys.readouterr().out


@pytest.mark.timeout(600)
def test_locks_of_share_groups_time_out_as_in_kafka(oracle):
    with command.start_both(None) as judge:
        assert judge.episode(lock_episode()) is None


@pytest.mark.timeout(3600)
def test_random_requests_are_answered_as_by_kafka(oracle, capsys):
    status = command.main(["--seed", "1", "--requests", str(REQUEST_COUNT)])
    assert not status, capsys.readouterr().out
