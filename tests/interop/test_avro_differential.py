"""Values of random pairs of Avro schemas are resolved as by Java's Avro 1.12.1, or rejected by both."""

from __future__ import annotations

import shutil

import pytest
from tests.interop.avro_java import jars, resolve
from tests.scan.values.avro_pairs import PairMaker, yield_differences

PAIR_COUNT = 5_000


def test_pairs_of_schemas_resolve_as_in_java() -> None:
    if shutil.which("java") is None or not jars():
        pytest.skip("Java or PySpark's jars are missing")
    pairs = PairMaker(1).pairs(PAIR_COUNT)
    all_verdicts = resolve(pairs)
    refused_count = sum("error" in verdict for verdicts in all_verdicts for verdict in verdicts)
    total = sum(map(len, all_verdicts))
    assert total * 0.05 < refused_count < total * 0.6  # both kinds of verdicts occur
    differences_by_pair = {
        number: difference
        for number, (pair, verdicts) in enumerate(zip(pairs, all_verdicts, strict=True))
        if (difference := yield_differences(pair, verdicts))
    }
    assert differences_by_pair == {}
