"""Load damaged spec files for a minute: the result is a spec or a SpecError, and quick.

Run: python tests/fuzz/spec_load.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutated_json import mutate

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.evolution import compare_messages

SLOWEST_SECONDS = 2.0
WORDS = [
    "0+",
    "1+",
    "0-3",
    "none",
    "null",
    "[]",
    "int8",
    "records",
    "S",
    "tag",
    "0",
    "-1",
    "{",
    "}",
    '"',
    ",",
    "//",
    "/*",
]


def damage_spec(choose: random.Random, texts: list[str]) -> str:
    """Return a real spec with a few words replaced, removed, duplicated or inserted."""
    words = choose.choice(texts).split(" ")
    for _ in range(choose.randrange(1, 3)):
        place = choose.randrange(len(words))
        words[place : place + choose.randrange(1, 3)] = choose.choices(
            [choose.choice(words), choose.choice(WORDS)], k=1
        )
    return " ".join(words)


def choose_text(choose: random.Random, texts: list[str]) -> str:
    """Return a spec with changed words, or with changed JSON values."""
    if choose.random() < 0.5:
        return damage_spec(choose, texts)
    text = choose.choice(texts)
    return mutate(choose, "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("//")))


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    texts = [
        path.read_text(encoding="utf-8") for path in sorted(MESSAGES_FOLDER.glob("*.json")) if path.name != "index.json"
    ]
    deadline, spec_count, refused_count = time.monotonic() + seconds, 0, 0
    while time.monotonic() < deadline:
        text, began = choose_text(choose, texts), time.monotonic()
        try:
            spec = load_message(text)
        except SpecError:
            refused_count += 1
        else:
            again = load_message(to_text(spec))
            if [difference for difference in compare_messages(spec, again) if difference.verdict == "breaking"]:
                raise SystemExit(f"seed {seed}, case {spec_count}: the spec changes when it is written and read again")
        if time.monotonic() - began > SLOWEST_SECONDS:
            raise SystemExit(f"seed {seed}, case {spec_count}: {time.monotonic() - began:.1f} s")
        spec_count += 1
    print(f"{spec_count} specs, {refused_count} of them rejected with a SpecError (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
