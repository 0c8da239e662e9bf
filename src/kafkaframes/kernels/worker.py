"""A process that compiles: a job a line on its standard input, an answer a line on its standard output."""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Do one job after the other until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    for line in sys.stdin:
        place, *args = json.loads(line)
        module, _, function = place.partition(":")
        try:
            getattr(importlib.import_module(module), function)(*args)
            answer = "done"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
