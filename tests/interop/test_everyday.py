"""The behaviours of tests/everyday hold unchanged on three Kafka nodes, some of which are killed."""

from __future__ import annotations

import pytest
from tests.everyday import outcomes
from tests.interop import brokers


@pytest.mark.parametrize("release", brokers.VERSIONS)
def test_everyday_behaviours_hold_on_real_nodes(oracle, release, tmp_path):
    results = tmp_path / "outcomes.json"
    process = outcomes.run_column(release, results)
    outcomes.store(release, results)
    assert process.returncode == 0, process.stdout[-8_000:]
