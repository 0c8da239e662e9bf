"""Test an installed kafkaframes from outside: ``python tools/smoke_test.py [options] -- COMMAND...``.

COMMAND runs the package's command: ``kafkaframes``, ``uvx --from WHEEL kafkaframes``, or an emulator with a Python of
another processor. The test needs only Python, and runs COMMAND with an empty home directory:

- ``--version`` and ``--help``;
- ``kernels status``: the compiled kernels of the wheel are used (not with ``--pure``);
- ``verify`` of the examples;
- ``dump-log`` of the examples, compared with what Kafka's own classes read from them (examples/logs/truth);
- ``broker``, ``produce`` and ``consume``: records of each codec return as they were sent, and SIGTERM ends the broker.

Afterwards the home directory must be empty: nothing was compiled or cached.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

LOGS_FOLDER: Final = Path(__file__).parents[1] / "examples" / "logs"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_POSITION_FIELDS: Final = ("topic", "partition", "directory", "segment")  # dump-log does not repeat it for each record
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")


class SmokeTest:
    """A test of an installed ``kafkaframes`` command.

    Attributes:
        command: program and arguments before the subcommand.
        seconds: time limit of each call.
    """

    def __init__(self, command: Sequence[str], home: Path, *, seconds: float = 300.0) -> None:
        self.command = tuple(command)
        self.seconds = seconds
        self._environment = {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}
        self._home = home

    def run(self, version: str | None, *, is_pure: bool) -> Iterator[str]:
        """Run each check; yield its name when it has passed.

        Raises:
            AssertionError: if a check failed.
        """
        output = self.call("--version")
        assert version is None or output.split()[-1] == version, f"--version printed {output!r}; expected {version}"
        assert "dump-log" in self.call("--help"), "--help does not list dump-log"
        yield f"--version ({output.split()[-1]}), --help"
        if not is_pure:
            self.call("kernels", "status")
            yield "kernels status"
        logs = sorted(path for path in LOGS_FOLDER.glob("kafka-*") if path.is_dir())
        for log in logs:
            verdict = self.call("verify", str(log))
            assert verdict.startswith("sound"), f"verify {log.name} printed {verdict!r}; expected a sound log"
            yield f"verify {log.name}"
        for log in logs:
            yield f"dump-log {log.name} ({self.compare_dump(log):,} lines equal to Kafka's)"
        yield f"broker, produce, consume ({self.send_through_broker()} records)"
        files = [str(path.relative_to(self._home)) for path in self._home.rglob("*") if path.is_file()]
        assert is_pure or not files, f"the home directory has new files: {', '.join(files[:3])}"

    def call(self, *arguments: str, stdin: str = "") -> str:
        """Return the standard output of a call that must succeed."""
        result = subprocess.run(
            [*self.command, *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.seconds,
            check=False,
        )
        failure = f"{' '.join(arguments)} ended with status {result.returncode}: {result.stderr.strip()[-2000:]}"
        assert result.returncode == 0, failure
        return result.stdout

    def compare_dump(self, log: Path) -> int:
        """Compare ``dump-log`` of a log directory with what Kafka read; return the number of lines."""
        with gzip.open(LOGS_FOLDER / "truth" / f"{log.name}.records.jsonl.gz", "rt", encoding="utf-8") as file:
            truth = Counter(_comparable_lines(file))
        dump = self.call("dump-log", "--format", "jsonl", str(log))
        actual = Counter(_comparable_lines(dump.splitlines()))
        difference = next(iter((truth - actual) + (actual - truth)), None)
        assert difference is None, f"dump-log {log.name} differs from Kafka: {difference}"
        return actual.total()

    def send_through_broker(self) -> int:
        """Send records with each codec to a broker, and read them; return their number."""
        broker = subprocess.Popen(
            [*self.command, "broker", "--port", "0"], env=self._environment, stderr=subprocess.PIPE, text=True
        )
        watchdog = threading.Timer(2 * self.seconds, broker.kill)
        watchdog.start()
        try:
            assert broker.stderr is not None
            lines: list[str] = []
            for line in broker.stderr:
                lines.append(line)
                if address := _ADDRESS.search(line):
                    break
            else:
                raise AssertionError(f"the broker did not start: {''.join(lines)[-2000:]}")
            server = ("-b", address[0], "--timeout", "60")
            values = [f"{codec} {index}" for codec in CODECS for index in range(100)]
            for codec in CODECS:
                lines = [f"{value}\n" for value in values if value.startswith(f"{codec} ")]
                self.call("produce", "smoke", *server, "-z", codec, stdin="".join(lines))
            records = self.call("consume", "smoke", *server, "-e").splitlines()
            assert records == values, f"consume returned {records[:3]}...; expected {values[:3]}..."
            broker.send_signal(signal.SIGTERM)
            broker.stderr.read()
            status = broker.wait(self.seconds)
            assert status == 0, f"the broker ended with status {status} after SIGTERM; expected 0"
            return len(records)
        finally:
            watchdog.cancel()
            broker.kill()
            broker.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the checks; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", help="the version that --version must print")
    parser.add_argument("--pure", action="store_true", help="kernels run as plain Python or are compiled")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of each call (default: 300)")
    parser.add_argument("command", nargs="+", help="the command to test")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as home:
        test = SmokeTest(options.command, Path(home), seconds=options.seconds)
        try:
            for check in test.run(options.version, is_pure=options.pure):
                print(f"passed: {check}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"failed: {error}", file=sys.stderr)
            return 1
    return 0


def _comparable_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield JSON objects as canonical text, without the position of the segment."""
    for line in lines:
        values: dict[str, Any] = json.loads(line)
        yield json.dumps({key: value for key, value in values.items() if key not in _POSITION_FIELDS}, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
