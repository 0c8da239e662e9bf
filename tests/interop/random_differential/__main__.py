"""``python -m tests.interop.random_differential --seed S --requests N`` sends random requests to the embedded broker
and to Apache Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.interop import brokers
from tests.interop.random_differential.judge import DifferenceFinding, EpisodeJudge, common_ranges
from tests.interop.random_differential.recorded import record_episodes
from tests.interop.random_differential.requests import RandomRequest

from kafkaframes.broker import Broker

VERSION = "4.3.1"
# Make assignments available immediately, as in the embedded broker. By default, Kafka waits a second between two and
# computes them in the background.
PROPERTIES = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.retention.ms": "-1",  # the records' timestamps are old
    "log.cleaner.enable": "false",
    "offsets.retention.check.interval.ms": "86400000",  # otherwise both brokers delete empty groups during a run
}
EMBEDDED_PROPERTIES = PROPERTIES | {
    "authorizer.class.name": "",
    "group.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "5000",
}


@contextlib.contextmanager
def start_both(against: str | None) -> Iterator[EpisodeJudge]:
    """Start both brokers, or the embedded one next to a running Kafka, and wait for their coordinators."""
    with contextlib.ExitStack() as stack:
        if against is None:
            oracle = Path(__file__).parents[4] / "shared" / "tools" / "oracle"
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            node = brokers.KafkaFactory(brokers.real_kafka(oracle / "target"), VERSION)(Path(folder), PROPERTIES)
            stack.enter_context(node)
            against = node.bootstrap
        host, _, port = against.rpartition(":")
        broker = stack.enter_context(Broker(config=EMBEDDED_PROPERTIES, broker_release="4.3"))
        ours, theirs = ("127.0.0.1", broker.port), (host, int(port))
        judge = EpisodeJudge(ours, theirs, common_ranges(ours, theirs))
        stack.callback(judge.close)
        judge.prepare()
        yield judge


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--against", help="host:port of a running Kafka; by default one is started")
    parser.add_argument(
        "--keep-going", action="store_true", help="list each kind of difference once, without shortening"
    )
    parser.add_argument("--replay", help="a file of requests, one JSON per line, instead of random requests")
    parser.add_argument("--first", type=int, default=0, help="number of the first episode")
    parser.add_argument("--only", help="APIs, with commas")
    parser.add_argument("--share", action="store_true", help="episodes of share groups with continuing sessions")
    parser.add_argument("--record", type=Path, help="write the requests and Kafka's answers to this file")
    options = parser.parse_args(arguments)
    with start_both(options.against) as judge:
        if options.only:
            judge.served_ranges = {name: judge.served_ranges[name] for name in options.only.split(",")}
        judge.is_about_share_groups = options.share
        if options.record:
            left_out = record_episodes(judge, options.seed, options.requests, options.record)
            print(f"{options.record}: {options.record.stat().st_size} bytes, {left_out} episodes were skipped")
            return 0
        if options.replay:
            lines = Path(options.replay).read_text().splitlines()
            finding = judge.episode([RandomRequest(*json.loads(line)) for line in lines if line.startswith("[")])
            print(finding)
            return finding is not None
        return _run_episodes(judge, options)


def _run_episodes(judge: EpisodeJudge, options: argparse.Namespace) -> int:
    began, number, kinds = time.monotonic(), options.first, Counter()
    while judge.count < options.requests:
        requests = judge.draw(options.seed, number)
        number += 1
        seen_findings: list[DifferenceFinding] | None = [] if options.keep_going else None
        first = judge.episode(requests, seen_findings=seen_findings)
        if first is not None:
            print(f"--- episode {number - 1}\n{first}\n--- the shortest sequence\n{judge.shorten_finding(first)}")
            return 1
        for finding in seen_findings or ():
            kind = _kind(finding)
            kinds[kind] += 1
            if kinds[kind] == 1:
                print(f"--- episode {number - 1}\n{_short(finding)}", flush=True)
    apis = len({api for api, _ in judge.kinds})
    print(f"{judge.count} requests, {apis} APIs, {len(judge.kinds)} versions, {time.monotonic() - began:.0f} s")
    print(f"{sum(kinds.values())} unnamed differences, of {len(kinds)} kinds")
    for kind, count in kinds.most_common():
        print(f"{count:5} {kind}")
    return bool(kinds)


def _kind(finding: DifferenceFinding) -> str:
    import re

    path = re.sub(r"\[\d+\]", "[]", finding.found[0].path)
    ours, theirs = finding.found[0].ours, finding.found[0].theirs
    small = (ours, theirs) if isinstance(ours, int) and isinstance(theirs, int) else ()
    return f"{finding.asked.api} {path} {small}"


def _short(finding: DifferenceFinding) -> str:
    differences_text = "\n".join(str(one)[:400] for one in finding.found[:6])
    return f"{finding.asked.api} v{finding.asked.version} {json.dumps(finding.asked.body)[:900]}\n{differences_text}"


if __name__ == "__main__":
    sys.exit(main())
