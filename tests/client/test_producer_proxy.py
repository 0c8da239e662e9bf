"""The producer with a proxy that drops connections: a few seeds of ``tests.soak.producer_proxy``."""

import asyncio

import pytest
from tests.soak.producer_proxy import run_seeds

# The seeds of ``idempotent`` detect mutants that renumber batches of unknown fate.
SEEDS_BY_MODE = {"idempotent": (3, 8, 11, 14), "transactions": (1, 2), "one": (1, 2), "none": (1, 2)}


@pytest.mark.parametrize("mode", SEEDS_BY_MODE)
def test_the_producers_results_match_the_log(mode, capsys):
    counts = asyncio.run(run_seeds(SEEDS_BY_MODE[mode], (mode,), records=60))
    assert counts["runs"] == len(SEEDS_BY_MODE[mode])
    assert not counts["wrong"], capsys.readouterr().out
