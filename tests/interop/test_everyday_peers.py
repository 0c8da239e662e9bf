"""confluent-kafka, kafka-python and aiokafka perform everyday behaviours with the documented results."""

from __future__ import annotations

import sys

import pytest
from tests.interop.fetching import prepare_python
from tests.interop.peers import results
from tests.interop.peers.behaviours import ADAPTERS, OURS, load_behaviours
from tests.interop.peers.stage import ClientProcess

PERFORMANCES = load_behaviours()


@pytest.fixture(scope="module", params=ADAPTERS)
def performer(request):
    """A process in which a client performs. After a complete run, the client's verdicts are stored for the docs."""
    python = sys.executable if request.param == OURS else prepare_python()
    performer = ClientProcess(request.param, python)
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
