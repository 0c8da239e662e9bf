"""Compare two checkouts: times of calls, number of files that a value passes through, amount of source code.

Each checkout is measured by processes of its own, in turn, with this script: CPU time (user and system), the least of
all turns, so that other work on the machine counts little. A *trip* is what one call enters of the package's Python
files: how many files, and how often one is entered again that had been left.

Run:      python benchmarks/checkouts.py [BEFORE [AFTER]] [--rounds 6] [--only PART] [--save]
          (paths of checkouts; AFTER is this one by default, and without BEFORE it is measured alone)
Saves:    benchmarks/results/checkouts.md
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from trips import (
    NOW_MS,
    RECORDS,
    SMALL_COLUMNS,
    create_small_log,
    make_columns,
    measure_trips,
    plan_task,
    read_all,
    write_log_directory,
)

THIS_FILE = Path(__file__).resolve()
RESULTS_FILE = THIS_FILE.parent / "results" / "checkouts.md"
MEBIBYTE = 1 << 20
ROUNDS = 7
Row = tuple[str, float]


def time_call(call: Callable[[], object], *, count: int = 1, turns: int = ROUNDS) -> float:
    """Return the CPU microseconds of one call, the minimum of some rounds of ``count`` calls."""
    best_us = float("inf")
    for _ in range(turns):
        start_s = time.process_time()
        for _ in range(count):
            call()
        best_us = min(best_us, (time.process_time() - start_s) / count * 1e6)
    return best_us


def measure_reading(folder: Path) -> Iterator[Row]:
    """Measure reading segments to Arrow."""
    import kafkaframes
    from kafkaframes.scan.arrow import rebatch
    from kafkaframes.scan.log.reading import read_work

    for codec in ("none", "lz4"):
        directory = write_log_directory(folder, codec, codec=codec)
        path = str(directory / "orders-0" / f"{0:020}.log")
        yield f"read {RECORDS:,} records, {codec}", time_call(lambda: read_all(kafkaframes.read_records(path)))  # noqa: B023
        yield f"a Spark task of them, {codec}", time_call(lambda: read_all(rebatch(read_work(*plan_task(directory)))))  # noqa: B023


def measure_appending(folder: Path) -> Iterator[Row]:
    """Measure appends to a log and reads from it."""
    from kafkaframes.records.append import AppendSettings, validate_and_assign
    from kafkaframes.records.build import build_records

    for name, count, codec, to, calls in (
        ("3 records", 3, "none", "producer", 2000),
        ("5,000 records", 5000, "none", "producer", 20),
        ("5,000 records, LZ4 to gzip", 5000, "lz4", "gzip", 3),
    ):
        raw = build_records(make_columns(count), codec=codec, batch_bytes=1 << 24)
        settings = AppendSettings(codec=to, now_ms=NOW_MS)
        call = partial(validate_and_assign, raw, 0, settings)
        yield f"`validate_and_assign` of {name}", time_call(call, count=calls)
    log, batch = create_small_log(folder / "log"), build_records(SMALL_COLUMNS)
    append = partial(log.append_as_leader, batch, leader_epoch=0, now_ms=NOW_MS)
    yield "`append_as_leader` of one small batch", time_call(append, count=300, turns=15)
    log.update_high_watermark(log.log_end_offset)
    yield "the same, idempotent", time_idempotent_append(log)
    yield (
        "`PartitionLog.read` of one small batch",
        time_call(partial(log.read, 150, max_bytes=150), count=300, turns=15),
    )


def time_idempotent_append(log: Any) -> float:
    """Return the microseconds of an append by a producer with an id; the batches are built before."""
    from kafkaframes.records.build import build_records

    best_us, count = float("inf"), 300
    for turn in range(ROUNDS):
        fields = {"producer_id": turn, "producer_epoch": 0}
        ready = iter([build_records(SMALL_COLUMNS, base_sequence=number, **fields) for number in range(count)])
        call = lambda: log.append_as_leader(next(ready), leader_epoch=0, now_ms=NOW_MS)  # noqa: B023, E731
        best_us = min(best_us, time_call(call, count=count, turns=1))
    return best_us


def measure_broker(folder: Path) -> Iterator[Row]:
    """Measure requests from frame to frame, without sockets."""
    from kafkaframes.broker.dispatch.dispatch import Dispatcher
    from kafkaframes.broker.lifecycle.assembly import open_broker
    from kafkaframes.broker.requests.request import Session
    from kafkaframes.records.build import build_records
    from kafkaframes.storage.files.names import TopicPartition

    state = open_broker(data_dir=str(folder / "broker"))
    for topic in ("small", "large"):
        state.create_topic(topic, 1)
    session, files, dispatcher = Session(), make_file_session(), Dispatcher(state)
    answer = make_answer_function(dispatcher)
    batch = build_records(SMALL_COLUMNS)
    large = build_records({"value": [bytes(1000)] * 1000, "timestamp": [NOW_MS] * 1000}, batch_bytes=1 << 22)
    answer(build_produce_frame("large", large), session)
    produce, fetch = build_produce_frame("small", batch), build_fetch_frame("small", 100, len(batch))
    for _ in range(200):
        answer(produce, session)
    yield "Produce of one small batch, frame to frame", time_call(lambda: answer(produce, session), count=300, turns=15)
    yield "Fetch of one small batch, frame to frame", time_call(lambda: answer(fetch, session), count=300, turns=15)
    whole = build_fetch_frame("large", 0, MEBIBYTE)
    yield (
        "Fetch of 1 MB, from the frame to the data to send",
        time_call(lambda: answer(whole, files), count=30, turns=15),
    )
    request = dispatcher.decode_request(whole, session)
    body = dispatcher.answer(request)
    yield "encoding and framing alone", time_call(lambda: dispatcher.encode(request, body), count=100)
    state.logs.abandon()
    memory, names = open_broker(), iter(range(10**6))

    def create() -> None:
        key = TopicPartition(f"t{next(names)}", 0)
        memory.logs.create(key, topic_id="AAAAAAAAAAAAAAAAAAAAAQ", now_ms=NOW_MS)

    yield "creating a partition, in memory", time_call(create, count=20, turns=15)


def make_file_session() -> Any:
    """Return a session that sends file ranges, if the checkout supports it."""
    from kafkaframes.broker.requests.request import Session

    try:
        return Session(sends_files=True)
    except TypeError:
        return Session()


def make_answer_function(dispatcher: Any) -> Callable[[bytes, Any], object]:
    """Return a function that answers a frame as the broker's server does, with the fast path first if it exists."""
    try:
        from kafkaframes.broker.dispatch.fast_path import FastPath
    except ImportError:
        short = None
    else:
        short = FastPath(dispatcher)

    def answer(frame: bytes, session: Any) -> object:
        quick_answer = None if short is None else short(memoryview(frame), session)
        if quick_answer is not None:
            return quick_answer
        request = dispatcher.decode_request(frame, session)
        return dispatcher.encode(request, dispatcher.answer(request))

    return answer


def build_produce_frame(topic: str, records: bytes) -> bytes:
    """Return a Produce request with one batch, without its size prefix."""
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.headers import encode_request

    types = message("ProduceRequest")
    row = types.PartitionProduceData(index=0, records=records)
    data = types.TopicProduceData(name=topic, partition_data=[row])
    return bytes(encode_request(types(acks=-1, timeout_ms=1000, topic_data=[data]), 9, client_id="bench"))


def build_fetch_frame(topic: str, offset: int, size: int) -> bytes:
    """Return a Fetch request, without its size prefix."""
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.headers import encode_request

    types = message("FetchRequest")
    row = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    topics = [types.FetchTopic(topic=topic, partitions=[row])]
    return bytes(encode_request(types(max_bytes=1 << 22, session_epoch=-1, topics=topics), 11, client_id="bench"))


def measure_rewriting(folder: Path) -> Iterator[Row]:
    """Measure rewrites of whole partitions."""
    from kafkaframes.jobs import settings
    from kafkaframes.jobs.convert.job import convert
    from kafkaframes.storage.cleaner import CleanerSettings, clean_partition
    from kafkaframes.storage.log.discover import discover

    kind: Any = getattr(settings, "ConvertSettings", settings.RewriteSettings)  # one class before convert had its own
    old, numbers = write_log_directory(folder, "old", codec="gzip", record_format=1), iter(range(1000))

    def rewrite() -> None:
        convert(str(old), folder / f"new{next(numbers)}", kind(record_format=2))

    yield f"`convert`, {RECORDS:,} records of format 1 to format 2", time_call(rewrite, turns=4)
    (directory,) = discover([str(write_log_directory(folder, "dirty", codec="lz4"))])

    def clean() -> None:
        target = folder / f"clean{next(numbers)}"
        clean_partition(directory.filesystem, directory.partitions[0], CleanerSettings(now_ms=NOW_MS * 2), target)

    yield f"`clean_partition` of {RECORDS:,} records", time_call(clean, turns=4)


def measure_proposals(folder: Path) -> Iterator[Row]:
    """Measure proposals with small calls."""
    path = folder / "small.pcapng"
    make = f"from captures import make; make(Path({str(path)!r}), {20 * MEBIBYTE}, small=True)"
    own = os.pathsep.join((str(THIS_FILE.parent), str(THIS_FILE.parent.parent / "src")))  # this checkout's, for both
    command = [sys.executable, "-c", f"from pathlib import Path; {make}"]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": own}, check=True)
    for name in ("kip-636", "flexible", "tag-header"):
        measure = partial(compare_proposal_sizes, str(path), name)
        yield f"20 MiB of small calls measured for {name}", time_call(measure, turns=3)


def compare_proposal_sizes(path: str, name: str) -> object:
    """Measure a proposal with one capture, with the public function, which older checkouts have too."""
    import kafkaframes

    return kafkaframes.measure_proposal(name, path)


def measure_starts(folder: Path) -> Iterator[Row]:
    """Measure the user and system time of command processes."""
    directory = write_log_directory(folder, "started", codec="lz4")
    segment = directory / "orders-0" / f"{0:020}.log"
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for arguments in ("--help", f"info {directory}", f"verify {directory}", f"dump-log {segment} -c 100"):
        best_s = float("inf")
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "kafkaframes", *arguments.split()]
            subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best_s = min(best_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        yield f"`kafkaframes {arguments.split()[0]}`, the process", best_s * 1e6


def measure_sizes(folder: Path) -> Iterator[Row]:
    """Count the package's files in git, their lines, and their lines of code (without comments and docstrings)."""
    import kafkaframes

    checkout = Path(kafkaframes.__file__).parents[2]
    command = ["git", "-C", str(checkout), "ls-files", "src/*.py", "src/*.pyi"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    texts = [(checkout / name).read_text(encoding="utf-8") for name in names]
    yield "`src`: files", len(texts)
    yield "`src`: lines", sum(text.count("\n") for text in texts)
    yield "`src`: lines of code", sum(map(count_code_lines, texts))


def count_code_lines(text: str) -> int:
    """Return the number of lines with a token other than a comment, without docstrings."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in quiet:
            lines.update(range(token.start[0], token.end[0] + 1))
    has_docstring = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, has_docstring) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


MEASURED_PARTS = {
    "reading": measure_reading,
    "appending": measure_appending,
    "broker": measure_broker,
    "rewriting": measure_rewriting,
    "weighing": measure_proposals,
    "starting": measure_starts,
    "trips": measure_trips,
    "sizes": measure_sizes,
}


def measure_checkout(only: list[str]) -> dict[str, float]:
    """Measure the checkout that this process imports."""
    figures: dict[str, float] = {}
    for name in only or MEASURED_PARTS:
        with tempfile.TemporaryDirectory() as folder:
            figures.update(MEASURED_PARTS[name](Path(folder)))
    return figures


def measure_in_turn(checkouts: list[Path], rounds: int, only: list[str]) -> list[dict[str, float]]:
    """Return the minimum of each figure for each checkout."""
    best: list[dict[str, float]] = [{} for _ in checkouts]
    for _ in range(rounds):
        for place, checkout in enumerate(checkouts):
            environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
            script = (
                checkout / "benchmarks" / THIS_FILE.name
            )  # its own, because the modules that it imports may have moved
            command = [sys.executable, str(script), "--measure", *(f"--only={name}" for name in only)]
            out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
            for name, figure in json.loads(out.splitlines()[-1]).items():
                best[place][name] = min(best[place].get(name, figure), figure)
    return best


def find_commit(checkout: Path) -> str:
    """Return the short name of a checkout's commit."""
    out = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True
    )
    return out.stdout.strip() or checkout.name


def format_table(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """Return the rows of the report."""
    lines = []
    for name in after:
        old, new = before[name], after[name]
        is_count = any(f": {what}" in name for what in ("files", "returns", "lines"))
        cells = [f"{one:,.0f}" if is_count else format_time(one) for one in (old, new)]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {new / old:.2f} |")
    return lines


def format_time(microseconds: float) -> str:
    """Return a time with its unit."""
    return f"{microseconds / 1e3:.1f} ms" if microseconds >= 1000 else f"{microseconds:.1f} us"


def main() -> None:
    """Measure, and print or save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", action="append", default=[], choices=MEASURED_PARTS)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_checkout(options.only)))
        return
    checkouts = [*options.checkouts, THIS_FILE.resolve().parents[1]][:2]
    figures_by_checkout = measure_in_turn(checkouts, options.rounds, options.only)
    before, after = figures_by_checkout[0], figures_by_checkout[-1]
    names = [find_commit(checkout) for checkout in (checkouts[0], checkouts[-1])]
    lines = [
        "# Two checkouts compared",
        "",
        f"{date.today()}, {os.cpu_count()} cores shared with other work (load {os.getloadavg()[0]:.1f}), "
        f"Python {platform.python_version()}. CPU time, the minimum of {options.rounds} rounds in turn.",
        f"Before: {names[0]}. After: {names[1]}.",
        "",
        "| what | before | after | ratio |",
        "|---|---|---|---|",
        *format_table(before, after),
    ]
    print("\n".join(lines))
    if options.save:
        RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
