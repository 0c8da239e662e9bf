"""Episodes with Kafka's recorded responses in a file, with which our broker is compared without a Kafka.

A line is an episode: a list of [API, version, body, Kafka's response], with names for a broker's own values in both.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.random_differential.compare import differences, plain
from tests.interop.random_differential.judge import Finding, Judge
from tests.interop.random_differential.pair import SILENT, Side
from tests.interop.random_differential.requests import Asked
from tests.interop.random_differential.sides import delete_topics, learn_topics, prepare
from tests.interop.random_differential.symbols import Memory

_SECONDS = 20.0
_MAX_SECONDS = 40.0  # time limit of an episode: transactions and members time out after 60 s


def record(judge: Judge, seed: int, requests: int, path: Path) -> int:
    """Write episodes with at least this many requests. Return how many were skipped because of a difference or the
    time.
    """
    lines, count, left_out = [], 0, 0
    for number in range(10 * requests):
        if count >= requests:
            break
        judge.heard = []
        episode, began = judge.draw(seed, number), time.monotonic()
        is_equal = judge.episode(episode) is None and len(judge.heard) == len(episode)
        if not is_equal or time.monotonic() - began > _MAX_SECONDS:
            left_out += 1
            continue
        count += len(episode)
        lines.append(json.dumps([[*request, answer] for request, answer in judge.heard], separators=(",", ":")))
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return left_out


def episodes(path: Path) -> Iterator[list[tuple[Asked, Any]]]:
    """Yield the requests of each episode of a file, and Kafka's responses."""
    for line in gzip.decompress(path.read_bytes()).splitlines():
        yield [(Asked(api, version, body), answer) for api, version, body, answer in json.loads(line)]


def replay(path: Path, address: tuple[str, int]) -> Iterator[tuple[int, Finding | None]]:
    """Send the requests of a file to a broker. Yield the size of each episode, and its first difference."""
    prepare(address)
    for number, episode in enumerate(episodes(path)):
        side = Side(address, Memory(f"r0x{number + 1}-"))
        yield len(episode), _first_difference(side, episode)
        delete_topics(side)


def _first_difference(side: Side, episode: list[tuple[Asked, Any]]) -> Finding | None:
    for position, (request, expected_answer) in enumerate(episode):
        body = side.send(request)
        data = side.connection.receive(_SECONDS)
        answer = side.read(request, body, data)
        rows = [] if data is SILENT else differences(request, plain(side.memory, request, answer), expected_answer)
        if rows or data is SILENT:
            return Finding(tuple(before for before, _ in episode[:position]), request, tuple(rows))
        learn_topics(side, request)
    return None
