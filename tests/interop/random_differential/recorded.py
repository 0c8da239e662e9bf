"""Record episodes with Kafka's responses in a file, and compare the embedded broker with them without Kafka.

A line is an episode: a list of [API, version, body, Kafka's response], with names instead of a broker's own values.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.random_differential.compare import differences, plain_answer
from tests.interop.random_differential.judge import DifferenceFinding, EpisodeJudge
from tests.interop.random_differential.pair import SILENT, BrokerSide
from tests.interop.random_differential.requests import RandomRequest
from tests.interop.random_differential.sides import delete_topics, learn_topics, wait_for_coordinators
from tests.interop.random_differential.symbols import BrokerMemory

_SECONDS = 20.0
_MAX_SECONDS = 40.0  # time limit of an episode, because transactions and members time out after 60 s


def record_episodes(judge: EpisodeJudge, seed: int, requests: int, path: Path) -> int:
    """Write episodes with at least ``requests`` requests in total. Return how many episodes were skipped because of a
    difference or the time limit.
    """
    lines, count, left_out = [], 0, 0
    for number in range(10 * requests):
        if count >= requests:
            break
        judge.heard = []
        episode, start = judge.draw(seed, number), time.monotonic()
        is_equal = judge.episode(episode) is None and len(judge.heard) == len(episode)
        if not is_equal or time.monotonic() - start > _MAX_SECONDS:
            left_out += 1
            continue
        count += len(episode)
        lines.append(json.dumps([[*request, answer] for request, answer in judge.heard], separators=(",", ":")))
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return left_out


def read_episodes(path: Path) -> Iterator[list[tuple[RandomRequest, Any]]]:
    """Yield the requests of each episode of a file, and Kafka's responses."""
    for line in gzip.decompress(path.read_bytes()).splitlines():
        yield [(RandomRequest(api, version, body), answer) for api, version, body, answer in json.loads(line)]


def replay(path: Path, address: tuple[str, int]) -> Iterator[tuple[int, DifferenceFinding | None]]:
    """Send the requests of a file to a broker, and compare the responses.

    Yield the size of each episode, and its first difference.
    """
    wait_for_coordinators(address)
    for number, episode in enumerate(read_episodes(path)):
        side = BrokerSide(address, BrokerMemory(f"r0x{number + 1}-"))
        yield len(episode), _first_difference(side, episode)
        delete_topics(side)


def _first_difference(side: BrokerSide, episode: list[tuple[RandomRequest, Any]]) -> DifferenceFinding | None:
    for position, (request, expected_answer) in enumerate(episode):
        body = side.send(request)
        data = side.connection.receive(_SECONDS)
        answer = side.read(request, body, data)
        rows = (
            [] if data is SILENT else differences(request, plain_answer(side.memory, request, answer), expected_answer)
        )
        if rows or data is SILENT:
            return DifferenceFinding(tuple(before for before, _ in episode[:position]), request, tuple(rows))
        learn_topics(side, request)
    return None
