"""Results for users of confluent-kafka, kafka-python and aiokafka, next to those of our users: ``peers``."""

from __future__ import annotations

import sys

import pytest
from tests.interop.fetching import python_with_clients
from tests.interop.peers import results
from tests.interop.peers.behaviours import ADAPTERS, OURS, load_performances
from tests.interop.peers.stage import Performer

PERFORMANCES = load_performances()


@pytest.fixture(scope="module", params=ADAPTERS)
def performer(request):
    """A process in which one client performs. After a complete run, its verdicts are stored for the docs."""
    python = sys.executable if request.param == OURS else python_with_clients()
    performer = Performer(request.param, python)
    performer.verdicts = {}
    try:
        yield performer
    finally:
        performer.close()
    if set(performer.verdicts) == set(PERFORMANCES):
        results.store(request.param, performer.version, performer.verdicts)


@pytest.mark.parametrize("name", PERFORMANCES)
def test_a_client_behaves_as_documented(performer, name):
    result = results.judge(PERFORMANCES[name], performer.adapter, *performer.perform(name))
    performer.verdicts[name] = result.verdict
    assert not result.fault, result.fault
