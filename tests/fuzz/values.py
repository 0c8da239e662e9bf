"""Decode values with random schemas, valid and damaged: a row or a reason for each, equal to those of other libraries.

The properties of the tests run here, against fastavro, protobuf and Python's json, each time with another seed.

Run: python tests/fuzz/values.py [--seconds 60] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from hypothesis import seed, settings

sys.path.insert(0, str(Path(__file__).parents[2]))  # the comparisons of the tests run here

from tests.scan.values import test_any_schema, test_json_columns

AT_ONCE = 50
ANY = settings(max_examples=AT_ONCE, database=None, deadline=None, derandomize=False)
PROPERTIES = {
    "Avro": ANY(test_any_schema.test_avro),
    "Avro, another schema": ANY(test_any_schema.test_avro_written_with_another_schema),
    "JSON": ANY(test_any_schema.test_json),
    "JSON in columns": ANY(test_json_columns.test_both_parsers_give_the_same),
    "Protobuf": ANY(test_any_schema.test_protobuf),
}
ARGUMENTS = {"JSON in columns": {"other_fields": True}}


def main() -> None:
    """Fuzz until the time is over. Print a failure with the smallest case and its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stop, rounds = time.monotonic() + options.seconds, 0
    for number in itertools.count(options.seed):
        for name, check in PROPERTIES.items():
            try:
                seed(number)(check)(**ARGUMENTS.get(name, {}))
            except BaseException:
                print(f"{name}, seed {number}")
                raise
            rounds += 1
            if time.monotonic() > stop:
                print(f"values: {rounds * AT_ONCE} schemas and their values, whole and damaged")
                return


if __name__ == "__main__":
    main()
