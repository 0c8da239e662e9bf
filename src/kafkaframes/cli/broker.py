"""``kafkaframes broker``: an embedded broker as a process of its own."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.options import ExistingPath, add_settings_flags, print_links, replicas_option
from kafkaframes.cli.placeholders import PLACEHOLDER_HELP, resolve_placeholders
from kafkaframes.cli.text import ignore_closed_stderr, print_note
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import SourceSettings
from kafkaframes.storage.files.filesystem import FOLLOW_LINKS_OPTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaframes.broker import Broker


_USERS_VARIABLE = "KAFKAFRAMES_SASL_USERS"
_CONTROL_TOKEN_VARIABLE = "KAFKAFRAMES_CONTROL_TOKEN"
MAX_PRINTED_REMARKS = 20  # largest number of printed remarks about copies of partitions and tiered stores


@click.command("broker")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port to listen on; 0 chooses a free port.",
)
@click.option("--data-dir", metavar="DIR", help="Kafka log directory to store the data in. Default: in memory.")
@click.option(
    "--serve",
    multiple=True,
    metavar="DIR",
    help="Serve this log directory or tiered store read-only; repeatable.",
)
@replicas_option
@add_settings_flags(SourceSettings)
@click.option("--adopt", is_flag=True, help="Write to a --data-dir that another broker has created.")
@click.option(
    "--durability",
    type=click.Choice(("memory", "log", "fsync")),
    help="When a batch is acknowledged: in memory, written to a file (survives kill -9), or flushed to disk.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of virtual nodes; each has its own port.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=ExistingPath(dir_okay=False),
    help="server.properties file with broker settings.",
)
@click.option(
    "--kafka-defaults", is_flag=True, help="Use Kafka's default settings instead of the shorter waits for tests."
)
@click.option(
    "--broker-release", metavar="RELEASE", help="Serve only the API versions of a Kafka release: 0.8.2 ... 4.3."
)
@click.option(
    "--specs",
    metavar="DIR",
    type=ExistingPath(),
    help="Message specs to serve, such as the output of kafkaframes spec rewrite.",
)
@click.option(
    "--metrics-port",
    "metrics",
    metavar="ADDR",
    help="Serve Prometheus metrics on /metrics at [HOST:]PORT; port 0 chooses a free port.",
)
@click.option(
    "--control",
    metavar="ADDR",
    help="Serve the control interface for tests (faults, clock, ...) over HTTP at [HOST:]PORT.",
)
@click.option(
    "--control-token-file",
    metavar="FILE",
    help="File with the token for --control, readable only by you; created if missing. Or set "
    "KAFKAFRAMES_CONTROL_TOKEN. Default: a new token, which is printed.",
)
@click.option("--schema-registry", metavar="ADDR", help="Run an in-memory schema registry for tests at [HOST:]PORT.")
@click.option(
    "--request-log", metavar="FILE", help="Append each request to FILE as a JSON line, like Kafka's request log."
)
@click.option(
    "--sasl",
    metavar="MECHANISMS",
    help="SASL mechanisms, separated by commas. Default with users: PLAIN,SCRAM-SHA-256,SCRAM-SHA-512.",
)
@click.option(
    "--sasl-users-file",
    metavar="FILE",
    help="Require SASL; file with lines NAME=PASSWORD, readable only by you. Or set KAFKAFRAMES_SASL_USERS.",
)
@click.option(
    "--sasl-user",
    "users",
    multiple=True,
    metavar="NAME=PASSWORD",
    help="SASL user; repeatable. Prefer --sasl-users-file, because other users can see command lines.",
)
@click.option("--tls-cert", "certificate", metavar="FILE", help="Require TLS; PEM file with the certificate.")
@click.option(
    "--tls-key", "key", metavar="FILE", help="PEM file with the certificate's key. Default: the --tls-cert file."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"Broker setting; repeatable. {PLACEHOLDER_HELP}",
)
def command(
    config: str | None,
    settings: tuple[str, ...],
    request_log: str | None,
    sasl: str | None,
    sasl_users_file: str | None,
    users: tuple[str, ...],
    certificate: str | None,
    key: str | None,
    control: str | None,
    control_token_file: str | None,
    metrics: str | None,
    schema_registry: str | None,
    key_files: tuple[str, ...],
    follow_links: bool,
    **flags: Any,
) -> None:
    """Run a Kafka broker on this machine: for development, tests, replays and migrations.

    The broker supports all API versions from 0 on, and record formats 0, 1 and 2. The first line on standard error
    contains the broker's address. SIGTERM and Ctrl-C stop it cleanly, with exit status 0.

    \b
    kafkaframes broker
    kafkaframes broker --port 9092 --data-dir /var/lib/kafkaframes
    kafkaframes broker --serve /backup/kafka-logs
    kafkaframes broker --serve /backup/broker-1 --serve s3://bucket/tiered
    """
    import asyncio

    from kafkaframes.broker import Broker, MetricsEndpoint, ServedLogs
    from kafkaframes.broker.faults.journal import open_request_log
    from kafkaframes.broker.security.from_settings import build_security, read_or_create_token
    from kafkaframes.broker.settings.listeners import parse_listeners
    from kafkaframes.storage.files.atomic import reject_nested_destination
    from kafkaframes.storage.files.descriptors import raise_descriptor_limit

    raise_descriptor_limit()
    address = None if control is None else _parse_address(control, "--control")
    of_environment = os.environ.pop(_CONTROL_TOKEN_VARIABLE, None)
    token = of_environment if control_token_file is None else read_or_create_token(control_token_file)
    if metrics is not None:
        host, port = _parse_address(metrics, "--metrics-port")
        flags["metrics"] = MetricsEndpoint(port, host)
    flags["cluster"] = flags.pop("nodes")
    serve, replicas = flags.pop("serve"), flags.pop("replicas")
    known_settings, unknown = _parse_settings(config, settings)
    directory = known_settings.pop("log.dirs", known_settings.pop("log.dir", ""))
    if directory and not flags["data_dir"] and not serve:
        flags["data_dir"] = directory.partition(",")[0]
    storage = SourceSettings(key_files=key_files, follow_links=follow_links).storage
    flags["listeners"] = listeners = parse_listeners(known_settings)
    if sasl is not None:
        known_settings["sasl.enabled.mechanisms"] = sasl
    users += _read_users(sasl_users_file)
    flags["security"] = build_security(
        known_settings, listeners=listeners, users=users, certificate=certificate, key=key
    )
    with ExitStack() as stack:
        write = None
        if request_log is not None:
            reject_nested_destination(Path(request_log), filter(None, (*serve, flags["data_dir"])))
            file = stack.enter_context(open_request_log(request_log))
            write = partial(print, file=file, flush=True)
        broker = Broker(
            config=known_settings,
            journal=control is not None,
            request_log=write,
            serve=ServedLogs(serve, replicas, storage) if serve else None,
            **flags,
        )
        flags |= {"serve": serve, "storage": storage}
        if schema_registry is not None:
            flags["schema_registry"] = _start_schema_registry(stack, schema_registry)
        if address is None:
            asyncio.run(_run_broker(broker, flags, unknown))
        else:
            _run_controlled_broker(broker, address, token, partial(_announce_broker, broker, flags, unknown))


def _read_users(file: str | None) -> tuple[str, ...]:
    """Return the users in a file and in an environment variable. The variable is then removed from the environment."""
    from kafkaframes.broker.security.from_settings import parse_users, read_private_file

    users = parse_users(os.environ.pop(_USERS_VARIABLE, ""), source=_USERS_VARIABLE)
    if file is not None:
        users += parse_users(read_private_file(file), source=file)
    return tuple(users)


def _parse_settings(config: str | None, settings: tuple[str, ...]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the broker's settings from a file and from flags, and the names of settings without effect."""

    from kafkaframes.broker.settings.properties import is_known, read_properties

    known_settings: dict[str, str] = {}
    unknown: tuple[str, ...] = ()
    if config is not None:
        known_settings, unknown = read_properties(Path(config).read_bytes(), file=config)
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not is_known(key):
            raise OptionError(f"--set must be KEY=VALUE with a supported broker setting, not {key!r}")
        known_settings[key] = value
    return resolve_placeholders(known_settings), unknown


async def _run_broker(broker: Broker, flags: dict[str, Any], unknown: tuple[str, ...]) -> None:
    import asyncio

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with broker:
        _announce_broker(broker, flags, unknown)
        await stop.wait()
        print_note("stopping")


def _run_controlled_broker(
    broker: Broker, address: tuple[str, int], token: str | None, announce: Callable[[], None]
) -> None:
    """Run a broker in a thread until a signal arrives. The control interface can kill and restart it."""
    import threading

    from kafkaframes.testing import Control

    host, port = address
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with broker:
        control = Control(broker, host=host, port=port, token=token)
        announce()
        _print_to_stderr(f"  controls on {control.url}")
        if token is None:
            _print_to_stderr(f"  Authorization: Bearer {control.token}")
        stop.wait()
        print_note("stopping")
        control.close()


def _start_schema_registry(stack: ExitStack, address: str) -> str:
    """Start a schema registry until the stack closes, and return its URL."""

    from kafkaframes.testing import SchemaRegistry

    host, port = _parse_address(address, "--schema-registry")
    return stack.enter_context(SchemaRegistry(host=host, port=port)).url


def _parse_address(text: str, option: str) -> tuple[str, int]:
    """Return the host and port in an option. The default host is 127.0.0.1."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise OptionError(f"{option} must be PORT or HOST:PORT, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _announce_broker(broker: Broker, flags: dict[str, Any], unknown: tuple[str, ...]) -> None:
    """Print the addresses and the durability of the broker, and how to stop it."""
    _print_to_stderr(f"listening on {broker.bootstrap_servers}")
    if broker.metrics_url is not None:
        _print_to_stderr(f"  metrics on {broker.metrics_url}")
    if "schema_registry" in flags:
        _print_to_stderr(f"  schema registry on {flags['schema_registry']}")
    for line in _describe_broker(broker, flags):
        print_note(f"  {line}")
    for line in _list_remarks(broker, unknown):
        _print_to_stderr(f"  {line}")
    if not flags["storage"].get(FOLLOW_LINKS_OPTION):
        with ignore_closed_stderr():
            print_links(flags["serve"])


def _print_to_stderr(line: str) -> None:
    """Print a line on standard error. A closed pipe does not stop the broker."""
    with ignore_closed_stderr():
        click.echo(line, err=True)


def _describe_broker(broker: Broker, flags: dict[str, Any]) -> list[str]:
    """Return the parts of the start message: location and durability of the data, and how to stop the broker."""
    meanings = {
        "log": "acknowledged records are written to files: they survive kill -9, but not a power failure",
        "fsync": "acknowledged records are flushed to disk",
    }
    ends = "for development and tests; SIGTERM or Ctrl-C stops it"
    if flags["serve"]:
        return [f"serving {', '.join(flags['serve'])}: read-only", "committed offsets are stored in memory", ends]
    durability = broker.durability
    if durability == "memory":
        return ["data is stored in memory, and is lost when the broker stops", ends]
    return [f"data in {flags['data_dir']}", f"durability {durability}: {meanings[durability]}", ends]


def _list_remarks(broker: Broker, unknown: tuple[str, ...]) -> list[str]:
    """Return the first of the broker's remarks, and a line that lists the settings without effect."""
    lines = list(broker.remarks[:MAX_PRINTED_REMARKS])
    if len(broker.remarks) > MAX_PRINTED_REMARKS:
        lines.append(f"and {len(broker.remarks) - MAX_PRINTED_REMARKS:,} more (kafkaframes verify names them)")
    if unknown:
        lines.append(f"settings without effect in this broker: {', '.join(unknown)}")
    return lines
