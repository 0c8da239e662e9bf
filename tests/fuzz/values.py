"""Decode values with random schemas, valid and damaged: a row or a reason for each, equal to those of other libraries.

The tests' properties are checked against fastavro, protobuf and Python's json, each time with another seed.

Run: python tests/fuzz/values.py [--seconds 60] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from hypothesis import seed, settings

sys.path.insert(0, str(Path(__file__).parents[2]))  # the fuzzer calls the comparisons of the tests

from tests.scan.values import test_any_schema, test_json_columns

EXAMPLES_PER_ROUND = 50
RANDOM_EXAMPLES = settings(max_examples=EXAMPLES_PER_ROUND, database=None, deadline=None, derandomize=False)
PROPERTIES = {
    "Avro": RANDOM_EXAMPLES(test_any_schema.test_avro_values_are_decoded),
    "Avro, another schema": RANDOM_EXAMPLES(test_any_schema.test_avro_values_of_another_schema_are_decoded),
    "JSON": RANDOM_EXAMPLES(test_any_schema.test_json_values_are_decoded),
    "JSON in columns": RANDOM_EXAMPLES(test_json_columns.test_both_parsers_give_the_same),
    "Protobuf": RANDOM_EXAMPLES(test_any_schema.test_protobuf_values_are_decoded),
}
ARGUMENTS = {"JSON in columns": {"other_fields": True}}


def main() -> None:
    """Fuzz for the given number of seconds. Print a failure with the smallest case and its seed."""
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
                print(f"values: {rounds * EXAMPLES_PER_ROUND} schemas with their values, valid and damaged")
                return


if __name__ == "__main__":
    main()
