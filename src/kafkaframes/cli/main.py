"""The command ``kafkaframes``: one explicit table of commands, each loaded only when it is asked for."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

import click

from kafkaframes import __version__
from kafkaframes.cli.lazy import EXIT_INTERRUPTED, INTERRUPTED, LazyGroup
from kafkaframes.cli.text import say
from kafkaframes.errors import KafkaframesError

# command -> (module, one line for `kafkaframes --help`). The module's `command` is the click command; a room's
# imports are paid for only by the command that needs them.
COMMANDS: dict[str, tuple[str, str]] = {
    "decode": ("kafkaframes.cli.decode", "bytes of a request, response or record to an annotated hex dump"),
    "encode": ("kafkaframes.cli.encode", "Kafka's JSON form of a message to bytes"),
    "diff": ("kafkaframes.cli.diff", "two encodings side by side, field by field"),
    "spec": ("kafkaframes.cli.spec", "message specs: list, show, diff, check, lint, guide, import"),
    "analyze": ("kafkaframes.cli.analyze", "what the wire format costs, and what it would cost otherwise"),
    "audit": ("kafkaframes.cli.audit", "which clients and logs an upgrade of the brokers would break"),
    "record": ("kafkaframes.cli.record", "a proxy between clients and brokers that writes a capture"),
    "redact": ("kafkaframes.cli.redact", "a capture without payloads, names and secrets, to be shared"),
    "dump-log": ("kafkaframes.cli.dump_log", "print segments, indexes and snapshots, as Kafka does or as data"),
    "grep": ("kafkaframes.cli.grep", "records in whose key, value or headers something is found"),
    "summarize": ("kafkaframes.cli.summarize", "read logs with Spark, write Parquet, print what was in them"),
    "export": ("kafkaframes.cli.export", "records to Parquet, Arrow, CSV or JSON; goes on after a stop"),
    "table": ("kafkaframes.cli.table", "live topics or logs into Delta, Iceberg or Parquet, decoded, exactly once"),
    "info": ("kafkaframes.cli.info", "what is in a log: topics, offsets, sizes, codecs, times"),
    "report": ("kafkaframes.cli.report", "one page on a log: sizes, times, producers, keys, copies, damage"),
    "verify": ("kafkaframes.cli.verify", "check every CRC, offset, index and checkpoint of a log"),
    "repair": ("kafkaframes.cli.repair", "keep a damaged log's good batches; or recover as Kafka does"),
    "convert": ("kafkaframes.cli.convert", "a log in another record format, offline"),
    "recompress": ("kafkaframes.cli.recompress", "a log in another codec, offline"),
    "compact": ("kafkaframes.cli.compact", "Kafka's log compaction offline, and the proof that a key is gone"),
    "restore": ("kafkaframes.cli.restore", "a log directory that a real broker opens, from segments or Parquet"),
    "mirror": ("kafkaframes.cli.mirror", "copies of topics, batch by batch: between clusters and log directories"),
    "broker": ("kafkaframes.cli.broker", "an embedded broker: in memory, on a directory, or serving a backup"),
    "produce": ("kafkaframes.cli.produce", "lines, JSON lines, Parquet or Arrow into a topic"),
    "consume": ("kafkaframes.cli.consume", "the records of a topic, in kcat's formats, as JSON lines or Arrow"),
    "topics": ("kafkaframes.cli.topics", "list, create, describe, alter and delete topics, delete records"),
    "groups": ("kafkaframes.cli.groups", "consumer groups: what they committed, how far behind they are; reset"),
    "configs": ("kafkaframes.cli.configs", "show and change settings of topics and brokers"),
    "vectors": ("kafkaframes.cli.vectors", "bytes with what they mean, for the tests of other libraries"),
    "checkpoint": ("kafkaframes.cli.checkpoint", "a streaming query's checkpoint: where it stands; for another source"),
    "kernels": ("kafkaframes.cli.kernels", "the compiled parts: which are ready, where, and how others get them"),
    "doctor": ("kafkaframes.cli.doctor", "print what was found on this machine and what to do about it"),
}

# What the handlers of signals raise.
_SIGNAL_OF: dict[type[BaseException], int] = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}
_MOMENT_S = 0.01


@click.group(cls=LazyGroup, commands_table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkaframes")
def cli() -> None:
    """Kafka's bytes as DataFrames."""


def main() -> None:
    """Run the command line; a mistake of the caller's, of the bytes or of the disk is one clear line, not a traceback.

    Stopped by Ctrl-C or by ``kill``, a command cleans up after itself, and the exit status is that of a shell.
    """
    signal.signal(signal.SIGTERM, _stop)
    atexit.register(_heed_no_signal)
    sys.unraisablehook = _send_again
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that is not UTF-8 is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    try:
        cli()
    except KafkaframesError as error:
        say(f"kafkaframes: {error}", err=True)
        sys.exit(2)
    except MemoryError as error:
        say(f"kafkaframes: out of memory ({error}): a smaller --budget, or fewer --workers, needs less", err=True)
        sys.exit(2)
    except OSError as error:
        where = f" (at {error.filename})" if error.filename is not None else ""
        say(f"kafkaframes: {error.strerror or error}{where}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        say(INTERRUPTED, err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:  # all is said: what is left is the end of threads and of Python
        for number in _SIGNAL_OF.values():
            signal.signal(number, _leave)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """End at once: a thread that does not end must not hold the process."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: it was writing just now
            stream.flush()
    os._exit(128 + number)


def _heed_no_signal() -> None:
    """From here on Python takes itself apart; a signal would end it with a status that says nothing of the command."""
    for number in _SIGNAL_OF.values():
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _send_again(ignored: sys.UnraisableHookArgs) -> None:
    """Send a signal anew, in a moment, whose exception was swallowed.

    Python ignores what is raised in callbacks of weak references, which every import has: a broker that was told to
    stop while it started went on for ever.
    """
    number = next((number for kind, number in _SIGNAL_OF.items() if issubclass(ignored.exc_type, kind)), None)
    if number is None:
        sys.__unraisablehook__(ignored)
        return
    again = threading.Timer(_MOMENT_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
