"""Measure the gain of decoding JSON values as columns over decoding each value.

Both sides make the same struct of the same values, in turn; the ratio of their best CPU times counts. ``subset``: the
schema has half of the fields, and the others are skipped.

    python benchmarks/json_values.py [--values 50000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import random
import time

import pyarrow as pa

from kafkaframes.scan.values.columns import decode_to_struct
from kafkaframes.scan.values.json_values import JsonDecoder, infer_schema


class ValueByValueDecoder:
    """A decoder without its columns."""

    def __init__(self, decoder):
        self.decode, self.fields = decoder.decode, decoder.fields


def make_orders(count):
    """Yield orders as JSON values."""
    rng = random.Random(7)
    for number in range(count):
        order = {"id": rng.randrange(10**8), "customer": f"c{rng.randrange(10**5)}", "cents": rng.randrange(10**6)}
        lines = [{"sku": f"s{rng.randrange(999)}", "count": rng.randrange(1, 9)} for _ in range(number % 3)]
        yield json.dumps(order | {"city": rng.choice(("Oslo", "Lima")), "price": rng.random(), "lines": lines}).encode()


def time_decoders(values, decoders, rounds):
    """Return the best time of each decoder, in turns."""
    best = [float("inf")] * len(decoders)
    for _ in range(rounds):
        for side, decoder in enumerate(decoders):
            start_s = time.process_time()
            decode_to_struct(values, decoder)
            best[side] = min(best[side], time.process_time() - start_s)
    return best


def main():
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    values = pa.array(make_orders(options.values), pa.binary())
    schema = infer_schema(values[:1000].to_pylist())
    subset = {**schema, "properties": {name: schema["properties"][name] for name in ("id", "customer", "cents")}}
    for name, decoder_schema, keeps in (("whole", schema, True), ("subset", subset, False)):
        decoder = JsonDecoder(decoder_schema, other_fields=keeps)
        slow, fast = time_decoders(values, (ValueByValueDecoder(decoder), decoder), options.rounds)
        rates = f"{options.values / slow:,.0f} and {options.values / fast:,.0f} values a CPU second"
        print(f"{name}: one by one and as columns: {rates}: ratio {slow / fast:.1f}")


if __name__ == "__main__":
    main()
