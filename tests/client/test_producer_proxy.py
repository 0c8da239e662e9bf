"""The producer through a proxy that cuts connections: a few seeds of ``tests.soak.producer_proxy``."""

import asyncio

import pytest
from tests.soak.producer_proxy import campaign

# Mutants of ``idempotent`` in which batches of unknown fate got new sequences.
SEEDS = {"idempotent": (3, 8, 11, 14), "transactions": (1, 2), "one": (1, 2), "none": (1, 2)}


@pytest.mark.parametrize("mode", SEEDS)
def test_what_the_producer_reports_is_what_the_log_has(mode, capsys):
    counts = asyncio.run(campaign(SEEDS[mode], (mode,), records=60))
    assert counts["runs"] == len(SEEDS[mode])
    assert not counts["wrong"], capsys.readouterr().out
