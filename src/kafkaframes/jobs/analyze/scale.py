"""From weights to a cluster that was not captured: calls a second by API and version give bytes a second and a day.

A mix is a CSV file with ``api,version,calls_per_second``, or recorded traffic, whose calls are counted. What a call
takes is the mean of those weighed at its version; where there is none, an example stands for it (``examples.py``).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafkaframes.capture.reader import CaptureOptions, read_traffic
from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze.examples import example_messages
from kafkaframes.jobs.analyze.outcome import NOT_RAISED, NOT_READ, Outcome, Weight
from kafkaframes.jobs.analyze.proposals import Question
from kafkaframes.jobs.analyze.weigh import Bench
from kafkaframes.protocol.messages.registry import CATALOG, Apis

SECONDS_A_DAY: Final = 86_400
MEASURED, EXAMPLE = "measured", "example"


class Rate(NamedTuple):
    """How often an API is called at a version."""

    api_key: int
    api_version: int
    calls_per_second: float


class Scaled(NamedTuple):
    """Bytes a second of one API, version and direction; ``basis`` says where the size of a message is from."""

    api_key: int
    api_version: int
    direction: str
    kind: str
    calls_per_second: float
    before: float
    after: float
    basis: str

    @property
    def saved(self) -> float:
        """Bytes saved a second."""
        return self.before - self.after


def read_mix(path: str, apis: Apis = CATALOG) -> list[Rate]:
    """Return the rates of a CSV file.

    Raises:
        OptionError: it cannot be read, or names an API or version that there is not.
    """
    keys = {api.name.lower(): api for api in apis.table.values()}
    rates = []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                api = keys[row["api"].lower()]
                version = int(row.get("version") or api.versions.highest)
                if not api.versions.contains(version):
                    raise OptionError(f"`scale` {path}: {api.name} has no version {version}")
                rates.append(Rate(api.key, version, float(row["calls_per_second"])))
    except OSError as error:
        raise OptionError(f"`scale` {path}: {error.strerror}") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reason = "no columns api, version, calls_per_second, or no such API"
        raise OptionError(f"`scale` {path}: {reason} ({error})") from None
    if not rates:
        raise OptionError(f"`scale` {path}: no row")
    return rates


def counted_mix(files: Sequence[str], ports: Sequence[int] = (), apis: Apis = CATALOG) -> list[Rate]:
    """Return the rates of recorded traffic: its calls by API and version, over the time that it took.

    Raises:
        OptionError: it has no time to divide by.
    """
    counts, first, last = Counter[tuple[int, int]](), None, None
    columns = ("apiKey", "apiVersion", "requestTime", "responseTime")
    for batch in read_traffic(files, CaptureOptions(columns=columns, ports=tuple(ports), apis=apis)):
        rows = batch.to_pylist()
        counts.update((row["apiKey"], row["apiVersion"]) for row in rows if row["apiKey"] is not None)
        times = [time for row in rows for time in (row["requestTime"], row["responseTime"]) if time is not None]
        if times:
            first, last = min([*times, *([first] if first else [])]), max([*times, *([last] if last else [])])
    if first is None or last is None or first == last:
        raise OptionError("`scale`: this traffic takes no time, so it has no calls a second")
    seconds = (last - first).total_seconds()
    return [Rate(key, version, count / seconds) for (key, version), count in sorted(counts.items())]


def scaled(outcome: Outcome, rates: Sequence[Rate], question: Question) -> Iterator[Scaled]:
    """Yield the bytes a second of a mix, by what was weighed and, where nothing was, by examples."""
    measured = outcome.by("api_key", "api_version", "direction", "kind")
    for rate in rates:
        weights = {where[2:]: weight for where, weight in measured.items() if where[:2] == rate[:2]}
        basis = MEASURED
        if not any(weight.messages for weight in weights.values()):
            weights, basis = _example_weights(question, rate), EXAMPLE
        for (direction, kind), weight in sorted(weights.items()):
            if weight.messages and kind not in (NOT_READ, NOT_RAISED):
                each = rate.calls_per_second / weight.messages
                yield Scaled(*rate[:2], direction, kind, rate[2], weight.before * each, weight.after * each, basis)


def _example_weights(question: Question, rate: Rate) -> dict[tuple[str, str], Weight]:
    bench = Bench(question)
    for direction in bench.proposal.directions:
        form = bench.sent(rate.api_key, rate.api_version, direction)
        if form.spec.valid_versions.contains(rate.api_version):
            bench.weigh(example_messages(form, direction))
    return {(group.direction, group.kind): weight for group, weight in bench.outcome.weights.items()}
