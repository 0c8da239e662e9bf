"""Random pairs of Avro schemas: values resolve to what Java's Avro 1.12.1 makes of them, or are refused by both."""

from __future__ import annotations

import shutil

import pytest
from tests.interop.avro_java import jars, resolve
from tests.scan.values.avro_pairs import PairMaker, differences

PAIRS = 5_000


def test_pairs_of_schemas_resolve_as_in_java() -> None:
    if shutil.which("java") is None or not jars():
        pytest.skip("no java, or no jars of PySpark")
    pairs = PairMaker(1).pairs(PAIRS)
    judged = resolve(pairs)
    refused = sum("error" in verdict for verdicts in judged for verdict in verdicts)
    total = sum(map(len, judged))
    assert total * 0.05 < refused < total * 0.6  # both kinds of verdicts are there
    found = {
        number: said
        for number, (pair, verdicts) in enumerate(zip(pairs, judged, strict=True))
        if (said := differences(pair, verdicts))
    }
    assert found == {}
