"""``kafkaframes``: the table of commands. A command's module is imported only if the command is used."""

from __future__ import annotations

import atexit
import codecs
import difflib
import importlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import Any, NoReturn

import click

from kafkaframes import __version__
from kafkaframes.cli.text import ignore_closed_stderr, print_text, quiet_option
from kafkaframes.errors import NO_SUCH_PATH_TEXT, KafkaframesError, OptionError, PartialFailureError, format_path_error
from kafkaframes.errors.exceptions import rename_settings
from kafkaframes.storage.files.names import escape_unprintable


def list_flags_by_setting(command: click.Command | None) -> Mapping[str, str]:
    """Return the flag to print in messages in place of each setting, by setting name."""
    commands = [command, *getattr(command, "commands", {}).values()] if command else []  # a group and its subcommands
    options = [option for entry in commands for option in entry.params if isinstance(option, click.Option)]
    names = {str(option.name): max(option.opts, key=len) for option in options}
    flags = {flag.removeprefix("--").replace("-", "_"): flag for flag in names.values()}
    disabling = {f"{option.name}=false": option.secondary_opts[0] for option in options if option.secondary_opts}
    return {**flags, **names, **disabling}


EXIT_INTERRUPTED = 130
_PATH_METAVAR = re.compile("FILE|DIR|PATH|SRC|INPUT|CAPTURE|SOURCE|OLD|NEW")  # metavars of path values in help texts
_PATH_TYPE = click.Path(readable=False)  # a text for which shells complete file names
_MISSING_DASH_TEXT = f"{NO_SUCH_PATH_TEXT} (at -)"  # part of the error about an argument that is `-`
_COMMAND_KEY = "kafkaframes.command"  # key of a context's meta data: the command that runs
INTERRUPTED_TEXT = "kafkaframes: interrupted"


# Hints about options that Kafka's tools or kcat have and these commands do not have, by command and option.
_OPTION_HINTS: Mapping[str, Mapping[str, str]] = {
    "consume": {
        "-C": "consume always reads; omit it",
        "-o": "--offset sets the start position",
        "-J": "--format jsonl prints JSON lines",
        "-u": "the output is not buffered; omit it",
        "-q": "--quiet hides notes",
        "--from-beginning": "consume starts at the beginning by default; omit it",
        "--max-messages": "-c sets the maximum number of records",
        "--timeout-ms": "-e stops at the current end",
        "--property": "-f sets the format, such as -f '%k: %s\\n'",
        "--formatter-property": "-f sets the format, such as -f '%k: %s\\n'",
        "--consumer.config": "-X KEY=VALUE sets a property",
        "--consumer-property": "-X KEY=VALUE sets a property",
    },
    "produce": {
        "-P": "produce always writes; omit it",
        "-t": "the topic is the first argument: kafkaframes produce TOPIC",
        "--topic": "the topic is the first argument: kafkaframes produce TOPIC",
        "-l": "a file is the second argument: kafkaframes produce TOPIC FILE",
        "--property": "-K sets the separator between key and value",
        "--compression-codec": "-z sets the codec",
        "--producer.config": "-X KEY=VALUE sets a property",
        "--producer-property": "-X KEY=VALUE sets a property",
        "--broker-list": "-b specifies the brokers",
    },
}


Sections = Mapping[str, Mapping[str, tuple[str, str]]]  # heading of --help -> command -> (module[:function], help)


class LazyGroup(click.Group):
    """A command group that imports the module of a command when it is used. ``--help`` lists commands by section."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._table = {name: row for rows in sections.values() for name, row in rows.items()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments. Ctrl-C ends the program as in ``invoke``."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            raise _add_option_hint(error) from None
        except KeyboardInterrupt:
            click.echo(INTERRUPTED_TEXT, err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Error messages name the command's flags instead of the settings of the Python function.

        Ctrl-C ends the command with the exit status of a shell, because status 1 has another meaning.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _add_option_hint(error) from None
        except click.BadOptionUsage as error:
            raise _add_metavar(error, ctx.meta.get(_COMMAND_KEY)) from None
        except KafkaframesError as error:
            rename_settings(error, list_flags_by_setting(ctx.meta.get(_COMMAND_KEY)))
            if ctx.parent is None and _MISSING_DASH_TEXT in str(error):
                raise OptionError(f"{error}; this command cannot read standard input, so specify a path") from error
            raise
        except BrokenPipeError:  # the reader has closed the pipe: `| head`
            _discard_output_to_closed_pipes()
            ctx.exit(0)
        except KeyboardInterrupt:
            click.echo(INTERRUPTED_TEXT, err=True)
            ctx.exit(EXIT_INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command; None if it is not in the table."""
        if name not in self._table:
            return None
        module, _, function = self._table[name][0].partition(":")
        command = getattr(importlib.import_module(module), function or "command")
        assert isinstance(command, click.Command)
        for command_parameter in (command, *getattr(command, "commands", {}).values()):
            if quiet_option not in command_parameter.params:
                command_parameter.params.append(quiet_option)
            for parameter in command_parameter.params:
                if parameter.type is click.STRING and _PATH_METAVAR.search(
                    parameter.metavar or str(parameter.name).upper()
                ):
                    parameter.type = _PATH_TYPE
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments. For an unknown name, the error suggests the most similar one."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0].lower(), self._table, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(self._table)}"
            ctx.fail(f"unknown command {escape_unprintable(args[0])}: {hint}")
        name, command, remaining_args = super().resolve_command(ctx, args)
        ctx.meta[_COMMAND_KEY] = command
        return name, command, remaining_args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lines of the table without importing the commands."""
        width = max(map(len, self._table))
        for heading, rows in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in rows.items()])


def _add_option_hint(error: click.NoSuchOption) -> click.UsageError:
    """Return the error for an unknown option, with a hint if it is the name of a subcommand or an option elsewhere."""
    context, option = error.ctx, error.option_name
    command = None if context is None else context.command
    if context is None or command is None:
        return error
    name = option.lstrip("-")
    if isinstance(command, click.Group) and name in command.list_commands(context):
        hint = f"{name} is a command: {context.command_path} {name}"
    elif context.parent is None and option in ("-b", "--bootstrap-server"):
        hint = f"{option} follows the command, such as kafkaframes topics list {option} HOST:PORT"
    else:
        hint = _OPTION_HINTS.get(command.name or "", {}).get(option, "")
    return click.UsageError(f"No such option {option!r}: {hint}", context) if hint else error


def _add_metavar(error: click.BadOptionUsage, command: click.Command | None) -> click.UsageError:
    """Return the error for an option with a missing value, with the form of its values."""
    options = command.params if command else []
    metavar = next((option.metavar for option in options if error.option_name in option.opts), None)
    return click.UsageError(f"{error.message} Expected {error.option_name} {metavar}.") if metavar else error


def _discard_output_to_closed_pipes() -> None:
    """Discard buffered output for a closed pipe. Python would otherwise exit with status 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with ignore_closed_stderr():
        sys.stderr.flush()


# Section of `kafkaframes --help` -> command -> (module, one line of help). The click command is the module's `command`,
# or the function after a colon. Only the commands that run import their modules.
COMMAND_SECTIONS: Sections = {
    "Read logs (they are never changed)": {
        "info": ("kafkaframes.cli.info", "print offsets, sizes and codecs of a log, from headers alone"),
        "report": ("kafkaframes.cli.report", "write an HTML report about a log: sizes, keys, copies, damage"),
        "grep": ("kafkaframes.cli.grep", "print the records whose key, value or headers match a pattern"),
        "dump-log": ("kafkaframes.cli.dump_log", "print segments, indexes and snapshots, as Kafka does or as data"),
        "verify": ("kafkaframes.cli.verify", "check every CRC, offset, index and checkpoint of a log"),
    },
    "Move records": {
        "export": ("kafkaframes.cli.export", "export logs or topics to Parquet, Arrow, CSV or JSON lines"),
        "table": ("kafkaframes.cli.table", "write topics or logs into Delta, Iceberg or Parquet tables"),
        "mirror": ("kafkaframes.cli.mirror", "copy topics between clusters and log directories"),
        "restore": ("kafkaframes.cli.restore", "restore segments or Parquet to a directory for brokers"),
    },
    "Repair and convert logs": {
        "repair": ("kafkaframes.cli.repair", "copy the valid batches of a damaged log, or recover like Kafka"),
        "convert": ("kafkaframes.cli.convert", "rewrite a log in another record format, offline"),
        "recompress": ("kafkaframes.cli.convert:recompress_command", "rewrite a log with another codec, offline"),
        "compact": (
            "kafkaframes.cli.convert:compact_command",
            "compact a log like Kafka, offline; prove that a key is gone",
        ),
    },
    "Live clusters": {
        "consume": ("kafkaframes.cli.consume", "print the records of a topic in kcat's formats, JSON or Arrow"),
        "produce": ("kafkaframes.cli.produce", "send lines, JSON lines, Parquet or Arrow to a topic"),
        "topics": ("kafkaframes.cli.topics", "list, create, describe, alter and delete topics and records"),
        "groups": ("kafkaframes.cli.groups", "list and describe groups; reset and delete their offsets"),
        "configs": ("kafkaframes.cli.topics:configs", "show and change settings of topics, brokers and groups"),
        "acls": ("kafkaframes.cli.acls", "list, create and delete access rules"),
        "users": ("kafkaframes.cli.users", "list, set and delete SCRAM credentials of users"),
        "quotas": ("kafkaframes.cli.users:quotas", "list, set and delete quotas of users, clients and addresses"),
        "transactions": ("kafkaframes.cli.transactions", "list, describe and abort transactions; find hanging ones"),
        "broker": ("kafkaframes.cli.broker", "run an embedded broker in memory, on a directory or a backup"),
        "checkpoint": ("kafkaframes.cli.checkpoint", "show a streaming query's checkpoint; convert it"),
    },
    "Upgrade a cluster": {
        "audit": ("kafkaframes.cli.audit", "find the clients and logs that a broker upgrade would break"),
        "record": ("kafkaframes.cli.record", "run a proxy that records traffic with brokers in a capture"),
        "redact": (
            "kafkaframes.cli.record:redact",
            "remove payloads, names and secrets from a capture",
        ),
    },
    "Work on the protocol": {
        "decode": ("kafkaframes.cli.decode", "explain each byte of a request, response or record"),
        "encode": ("kafkaframes.cli.decode:encode_command", "encode a message from Kafka's JSON form"),
        "diff": ("kafkaframes.cli.decode:diff_messages", "compare two encodings of a message field by field"),
        "spec": ("kafkaframes.cli.main:spec", "list, show, compare, check and propose message specs"),
        "analyze": ("kafkaframes.cli.main:analyze", "measure the size of records and messages on the wire"),
        "vectors": (
            "kafkaframes.cli.decode:write_vectors_command",
            "write encoded messages as tests for other libraries",
        ),
    },
    "This machine": {
        "doctor": ("kafkaframes.cli.doctor", "check the installation, and show how to complete it"),
        "kernels": ("kafkaframes.cli.kernels", "list, compile and pack the compiled parts of this package"),
    },
}
_SPEC_COMMANDS = {
    "list": ("kafkaframes.cli.spec_show:list_messages", "list APIs with versions and headers, or record types"),
    "show": ("kafkaframes.cli.spec_show:print_layout", "print the wire layout of a message version"),
    "diff": ("kafkaframes.cli.spec_show:print_version_diff", "compare the wire layouts of two versions of a message"),
    "show-codec": (
        "kafkaframes.cli.spec_show:print_codec",
        "print the functions that read and write a message version",
    ),
    "stubs": ("kafkaframes.cli.spec_import:write_stubs", "write a module of your own messages, with stubs for editors"),
    "check": (
        "kafkaframes.cli.spec_check:check_compatibility",
        "check that specs are compatible with older ones (KIP-482)",
    ),
    "tags": (
        "kafkaframes.cli.spec_check:list_tags_command",
        "list the tags of fields, their first release and collisions",
    ),
    "lint": (
        "kafkaframes.cli.spec_check:lint_files",
        "check spec files by the rules of Kafka's generator",
    ),
    "guide": ("kafkaframes.cli.spec_import:write_guide", "write the protocol guide as one HTML page"),
    "rewrite": ("kafkaframes.cli.spec_rewrite:rewrite_specs", "rewrite specs as KIP-636 proposes"),
    "new-kip": (
        "kafkaframes.cli.spec_rewrite:write_proposal_specs",
        "write specs for your own proposal, from a Python file",
    ),
    "propose": ("kafkaframes.cli.spec_propose", "compute the bytes that a spec change costs or saves on real traffic"),
    "import": (
        "kafkaframes.cli.spec_import:import_releases",
        "write the catalog from the message specs of Kafka releases",
    ),
}
spec = LazyGroup(
    "spec",
    sections={"Commands": _SPEC_COMMANDS},
    help="Show, compare and check message specs (KIP-482).",
)
_ANALYZE_COMMANDS = {
    "records": (
        "kafkaframes.cli.analyze:print_record_sizes",
        "compare the sizes of records in formats 0, 1 and 2",
    ),
    "tag-header": (
        "kafkaframes.cli.analyze:print_tag_header_sizes",
        "compare headers of tagged fields: KIP-482, its draft, rejected drafts",
    ),
}
analyze = LazyGroup(
    "analyze",
    sections={"Commands": _ANALYZE_COMMANDS},
    help="Measure sizes on the wire, with the current and with proposed layouts.",
)
COMMANDS = {name: row for rows in COMMAND_SECTIONS.values() for name, row in rows.items()}

# Exceptions that signal handlers raise -> signal.
_SIGNAL_BY_EXCEPTION: dict[type[BaseException], int] = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}
_INTERRUPT_DELAY_S = 0.01  # time between checks whether the main thread has left the handler


_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=LazyGroup, sections=COMMAND_SECTIONS, context_settings=_CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="kafkaframes")
def cli() -> None:
    """Kafka's bytes as DataFrames."""


cli.params.append(quiet_option)


_ENCODING_ERRORS = "kafkaframes.replace"  # name of `_replace_symbols` as an error handler of codecs
_ASCII_BY_SYMBOL = {"✓": "ok", "✗": "no", "·": "-", "×": "x", "–": "-", "≈": "about ", "…": "..."}


def _replace_symbols(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace symbols that the locale's encoding does not have (LC_ALL=C) by ASCII, and other characters by escapes."""
    if isinstance(error, UnicodeEncodeError):
        symbol = error.object[error.start]
        if symbol in _ASCII_BY_SYMBOL:
            return _ASCII_BY_SYMBOL[symbol], error.start + 1
        error.end = error.start + 1  # a symbol may follow
    return codecs.backslashreplace_errors(error)


codecs.register_error(_ENCODING_ERRORS, _replace_symbols)


def _open_closed_streams() -> None:
    """Open standard error on the null device if it is closed (``2>&-``), and reject a closed standard output.

    If these streams stayed closed, the next opened file would get their descriptor, and messages of libraries would be
    written into that file.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    if sys.stdout is None:
        print_text("kafkaframes: standard output is closed; > /dev/null discards the output", err=True)
        sys.exit(2)


def main() -> None:
    """Run the command line. Invalid arguments, damaged data and disk errors give a one-line message, not a traceback.

    After Ctrl-C or ``kill``, the command cleans up and ends with the exit status of a shell.
    """
    signal.signal(signal.SIGTERM, _exit_for_signal)
    atexit.register(_ignore_signals)
    sys.unraisablehook = _resend_signal
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # print names that are not UTF-8 with escapes
            stream.reconfigure(errors=_ENCODING_ERRORS)
    try:
        cli()
    except KafkaframesError as error:
        print_text(f"kafkaframes: {error}", err=True)
        if isinstance(error, PartialFailureError):
            for other_error in list(error.errors.values())[1:]:
                print_text(f"also: {other_error}", err=True)
        sys.exit(2)
    except MemoryError as error:
        print_text(
            f"kafkaframes: out of memory ({error}): a smaller --budget, or fewer --workers, needs less memory", err=True
        )
        sys.exit(2)
    except OSError as error:
        has_filename = error.filename is not None
        print_text(
            f"kafkaframes: {format_path_error(error, error.filename) if has_filename else error.strerror or error}",
            err=True,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        print_text(INTERRUPTED_TEXT, err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:  # after this, a signal ends the process at once, because the program has finished
        for number in _SIGNAL_BY_EXCEPTION.values():
            signal.signal(number, _exit_now)


def _exit_now(number: int, _: FrameType | None) -> NoReturn:
    """End the process at once, without waiting for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: another call is writing to the stream
            stream.flush()
    os._exit(128 + number)


def _ignore_signals() -> None:
    """Ignore signals while Python shuts down. A signal at this point would replace the exit status of the command."""
    for number in _SIGNAL_BY_EXCEPTION.values():
        signal.signal(number, signal.SIG_IGN)


def _exit_for_signal(number: int, _: FrameType | None) -> None:
    """Exit with the shell's status for a signal."""
    sys.exit(128 + number)


def _resend_signal(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again after a moment, because its exception was ignored.

    Python ignores exceptions in callbacks of weak references, which every import uses. A broker that received a signal
    during its start would otherwise not stop.
    """
    number = next(
        (number for kind, number in _SIGNAL_BY_EXCEPTION.items() if issubclass(unraisable.exc_type, kind)), None
    )
    if number is None:
        sys.__unraisablehook__(unraisable)
        return
    threading.Thread(target=_resend_outside_handler, args=(number,), daemon=True).start()


def _resend_outside_handler(number: int) -> None:
    """Send a signal once the main thread has left ``_resend_signal``, where its exception would be ignored as well."""
    while True:
        time.sleep(_INTERRUPT_DELAY_S)
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_code is not _resend_signal.__code__:
            frame = frame.f_back
        if frame is None:
            os.kill(os.getpid(), number)
            return
