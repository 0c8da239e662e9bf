"""Write the tables of README.md and of pages of docs/ from the tables in the code; a test holds them equal.

python docs/tables.py
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

import kafkaframes
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.requests.api import OMIT_FROM_RESPONSE
from kafkaframes.capture.redaction import UNREDACTED_TEXTS
from kafkaframes.capture.relay import BrokerAddresses
from kafkaframes.cli.main import COMMAND_SECTIONS, analyze, cli, spec
from kafkaframes.client.metrics import METRICS
from kafkaframes.client.options import ClientOptions, ConsumerOptions, ProducerOptions, ShareConsumerOptions
from kafkaframes.client.properties import SHARE_CONSUMER, JavaProperty, list_java_properties
from kafkaframes.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    ShareConsumerSettings,
    list_setting_names,
)
from kafkaframes.client.sync import Admin
from kafkaframes.errors import EncodeError
from kafkaframes.jobs.export.settings import ExportSettings
from kafkaframes.jobs.mirror.settings import MirrorSettings
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.settings import AuditSettings, CompactSettings, ConvertSettings
from kafkaframes.jobs.tables.settings import TableSettings
from kafkaframes.protocol.spec import catalog, releases
from kafkaframes.records.layout import CODECS
from kafkaframes.scan.columns import (
    BATCH_COLUMNS,
    INTERNAL_COLUMNS,
    RECORD_COLUMNS,
    SEGMENT_COLUMNS,
    SPARK_COLUMNS,
    choose_columns,
)
from kafkaframes.spark.options import LOG_OPTIONS, LOG_WRITE_OPTIONS, STORE_OPTIONS, TOPIC_OPTIONS, TOPIC_WRITE_OPTIONS
from kafkaframes.storage.copies.decisions import MERGE_CHECKS

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.everyday import outcomes
from tests.everyday.behaviours import MODULES, PEERS, Behaviour, tests_of
from tests.interop.peers import behaviours as peer_behaviours
from tests.interop.peers import results as peer_results
from tools.long_runs import describe_status

FORMATS = {0: "before 0.10", 1: "0.10", 2: "since 0.11"}
ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("migration_story", Path(__file__).with_name("migration_story.py"))
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018
migration_story = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(migration_story)


def rows(header: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    """Write a table in Markdown."""
    lines = [header, tuple("---" for _ in header), *body]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def options_table() -> str:
    """One row for each option of kafka-log."""
    body = [(f"`{o.name}`", f"`{o.default}`" if o.default else "", o.meaning) for o in LOG_OPTIONS.values()]
    return rows(("option", "default", "meaning"), [row for row in body if row[0] != "`paths`"])


def records_table() -> str:
    """One row for each column of the table records."""
    given = dict.fromkeys(SPARK_COLUMNS, "by default") | {"headers": "`includeHeaders`"}
    body = [(f"`{c.name}`", f"`{c.type}`", given.get(c.name, ""), c.meaning) for c in RECORD_COLUMNS]
    return rows(("column", "type", "given", "meaning"), body)


def batches_table() -> str:
    """One row for each column of the table batches."""
    return rows(("column", "type", "meaning"), [(f"`{c.name}`", f"`{c.type}`", c.meaning) for c in BATCH_COLUMNS])


def internal_table() -> str:
    """One row for each column of decoded internal topics."""
    given = dict.fromkeys((column.name for column in choose_columns(None, table="internal")), "by default")
    own = [(f"`{c.name}`", f"`{c.type}`", c.meaning) for c in INTERNAL_COLUMNS if c.name in given]
    return rows(("column", "type", "meaning"), own)


def segments_table() -> str:
    """One row for each column of the table segments."""
    return rows(("column", "type", "meaning"), [(f"`{c.name}`", f"`{c.type}`", c.meaning) for c in SEGMENT_COLUMNS])


def storage_table() -> str:
    """One row for each argument of fsspec's that has names here."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, (place, _) in STORE_OPTIONS.items():
        names.setdefault(place, []).append(f"`{name}`")
    return rows(("option", "fsspec's argument"), [(", ".join(n), f"`{'.'.join(p)}`") for p, n in names.items()])


def formats_table() -> str:
    """One row for each codec, one column for each message format: records were built, read back and compared."""
    body = [(codec, *(_tried(magic, codec) for magic in FORMATS)) for codec in CODECS]
    return rows(("codec", *(f"format {magic} ({since})" for magic, since in FORMATS.items())), body)


def _tried(magic: int, codec: str) -> str:
    records = [{"key": b"key", "value": b"value %d" % number, "timestamp": number} for number in range(100)]
    try:
        raw = kafkaframes.build_records(records, record_format=magic, codec=codec)
    except EncodeError:
        return "not in Kafka"
    (batch,) = kafkaframes.read_records(raw, columns=["key", "value"], on_damage="fail")
    assert batch.column("value").to_pylist() == [record["value"] for record in records]
    return "read, written"


REFERENCE = ROOT / "docs" / "reference"
KAFKA_LOG = REFERENCE / "kafka-log.md"
KAFKA_TOPIC = REFERENCE / "kafka-topic.md"
JOB_SETTINGS = REFERENCE / "job-settings.md"
WRITING = ROOT / "docs" / "writing-logs.md"


def write_options_table(options: Mapping[str, Any] = LOG_WRITE_OPTIONS) -> str:
    """One row for each option of a write, or of others that are declared alike."""
    body = [(f"`{o.name}`", f"`{o.default}`" if o.default else "", o.meaning) for o in options.values()]
    return rows(("option", "default", "meaning"), body)


def decisions_table() -> str:
    """One row for each thing that is decided where copies of a partition differ."""
    body = [(f"`{check}`", severity.name.lower(), meaning) for check, (severity, meaning) in MERGE_CHECKS.items()]
    return rows(("check", "severity", "meaning"), body)


def broker_apis_table() -> str:
    """One row for each API that the embedded broker serves: its file says all of it."""
    body = []
    for api in collect_apis().values():
        low, high = api.range
        notes = "; ".join(f"{versions}: {note}" for versions, note in api.notes.items())
        gaps = "; ".join(api.gaps) or "none known"
        body.append((f"{api.name} ({api.key})", f"{low}-{high}", api.tier, api.behaviour, notes, gaps))
    return rows(("API", "versions", "tier", "behaviour", "by version", "gaps"), body)


def differences_table() -> str:
    """One row for each difference from Kafka that the tests beside it take as right."""
    path = ROOT / "tests" / "interop" / "random_differential" / "named.py"
    spec = importlib.util.spec_from_file_location("named", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    named = importlib.util.module_from_spec(spec)
    sys.modules["named"] = named  # a dataclass looks for its module there
    spec.loader.exec_module(named)
    body = [
        (row.apis.replace(".*", "all").replace("|", ", "), row.shown, row.reason) for row in named.NAMED_DIFFERENCES
    ]
    body += [(f"{row.apis}, beside 3.9.1", row.shown, row.reason) for row in named.DIFFERENCES_OF_3_9]
    return rows(("API", "what", "why"), body)


def rights_table() -> str:
    """One row for each right that an API needs, and one for each API that needs none."""
    body = []
    for api in collect_apis().values():
        for right in api.rights:
            enough = f" (or {right.or_cluster} on the CLUSTER)" if right.or_cluster else ""
            needs = f"{right.operation} on the {right.resource}{enough}"
            since, until = max(right.first_version, api.range[0]), min(right.last_version, api.range[1])
            part = right.each or (
                f"the request; its field `{right.field}` names the resource" if right.field else "the request"
            )
            shown = OMIT_FROM_RESPONSE if right.denied == OMIT_FROM_RESPONSE else right.error.name
            body.append((f"{api.name} ({api.key})", f"{since}-{until}", needs, part, shown))
        if not api.rights:
            body.append((f"{api.name} ({api.key})", "{}-{}".format(*api.range), "none", "", ""))
    return rows(("API", "versions", "right", "needed for", "without it"), body)


def migration_table() -> str:
    """One row for each step of KIP-31's migration, played against the embedded broker."""
    body = [
        (f"`{step.topic_format}`", f"V{step.producer}", f"V{step.consumer}", *map(str, step[3:]))
        for step in migration_story.play()
    ]
    return rows(
        ("message.format.version", "producer", "consumer", "bytes recompressed", "records down-converted"), body
    )


def redaction_table() -> str:
    """One row for each thing that a redacted capture keeps."""
    body = [
        ("numbers, flags, times, error codes, sizes, ports", "all messages", "always"),
        ("headers of batches and messages, without their checksums", "Produce, Fetch, ShareFetch", "always"),
        ("client ids", "headers of requests", "with `--keep-client-ids`"),
        ("IP addresses", "packets", "with `--keep-addresses`"),
    ]
    fields = [(*name.split(".")[::-1], pattern) for name, pattern in UNREDACTED_TEXTS.items()]
    body += [(f"`{field}`", f"`{name}`", f"where it matches `{pattern}`") for field, name, pattern in fields]
    return rows(("kept", "in", "when"), body)


def addresses_table() -> str:
    """One row for each API whose answers hold addresses of brokers, which the recorder replaces."""
    table, body = BrokerAddresses(), []
    for api in catalog.list_apis():
        answers = [table.find_response_addresses(api.key, version) for version in api.versions]
        held = [answer for answer in answers if answer is not None and answer.paths]
        if held:
            path = ".".join(held[-1].paths[0])
            versions = f"{held[0].version}-{held[-1].version}" if held[1:] else str(held[0].version)
            body.append((api.request.removesuffix("Request"), versions, f"`{path}`"))
    return rows(("API", "versions", "where"), body)


def java_admin_table() -> str:
    """One row for each method of Java's Admin; the interop tests compare the names by reflection."""
    body = []
    for name, entry in json.loads((ROOT / "docs" / "java_admin.json").read_text())["methods"].items():
        methods = entry.get("methods", [])
        lacking = [method for method in methods if not hasattr(Admin, method)]
        if lacking:
            raise SystemExit(f"docs/java_admin.json: Admin has no {', '.join(lacking)}")
        body.append((f"`{name}`", ", ".join(f"`{method}`" for method in methods) or entry["reason"]))
    return rows(("Java", "here"), body)


def long_runs_table() -> str:
    """One row for each stored result of tools/long_runs.py, newest first."""
    runs = json.loads((ROOT / "docs" / "long_runs.json").read_text())
    body = [
        (
            f"`{command}`",
            describe_status(run),
            run["result"],
            "" if run["minutes"] is None else f"{run['minutes']:g}",
            f"{run['date']}, `{run['commit']}`",
            run["machine"],
        )
        for command, run in sorted(runs.items(), key=lambda item: item[1]["date"], reverse=True)
    ]
    return rows(("command", "status", "result", "minutes", "date, commit", "machine"), body)


def client_metrics_table() -> str:
    """One row for each metric of the clients."""
    body = [
        (
            f"`{spec.name}`",
            ", ".join(f"`{client}-{spec.group}`" for client in (spec.clients if len(spec.clients) < 4 else ["CLIENT"])),
            spec.unit,
            f"{spec.meaning.rstrip('.')}.",
        )
        for spec in METRICS
    ]
    return rows(("metric", "groups", "unit", "meaning"), body)


def java_settings_table() -> str:
    """One row for each setting of Java's clients: the clients that have it, and how it is treated here."""
    body = [
        (
            f"`{known.name}`",
            "".join(client[0].upper() for client in _clients_of(known)),
            ": ".join(filter(None, (known.treatment, known.reason))),
        )
        for known in sorted(list_java_properties().values(), key=lambda known: known.name)
    ]
    return rows(("setting", "clients", "here"), body)


def _clients_of(known: JavaProperty) -> list[str]:
    """List the clients that take a setting of Java's, with the share consumer."""
    is_shared = known.treatment == "supported" and known.name.replace(".", "_") in list_setting_names(
        ShareConsumerSettings
    )
    return list(dict.fromkeys([*known.clients, *([SHARE_CONSUMER] if is_shared else [])]))


def client_settings_table(client: str) -> str:
    """One row for each setting of a client: its keyword, Java's name, its type, its default and its meaning.

    Args:
        client: ``client`` for the settings of every client, or ``producer``, ``consumer`` or ``share_consumer`` for the
            settings that only this client has.
    """
    settings, declared = CLIENT_SETTINGS[client]
    of_every_client = set(list_setting_names(ClientSettings)) if settings is not ClientSettings else set()
    meanings = meanings_of(declared)
    java = list_java_properties()
    body = []
    for entry in fields(settings):
        if entry.name in of_every_client or entry.name == "bootstrap_servers":
            continue
        dotted = entry.name.replace("_", ".")
        is_plain = entry.default not in (None, (), "", MISSING)
        body.append(
            (
                f"`{entry.name}`",
                f"`{dotted}`" if dotted in java else "",
                f"`{entry.type}`",
                f"`{entry.default}`" if is_plain else "",
                re.sub(r" Default: [^.]*\.$", "", meanings[entry.name]),
            )
        )
    return rows(("setting", "Java's name", "type", "default", "meaning"), body)


def meanings_of(declared: type) -> dict[str, str]:
    """Return the text below each setting of a class of ``client.options``."""
    (node,) = ast.parse(inspect.getsource(declared)).body
    assert isinstance(node, ast.ClassDef)
    return {
        before.target.id: " ".join(after.value.value.split())
        for before, after in pairwise(node.body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


CLIENT_SETTINGS: dict[str, tuple[type[ClientSettings], type]] = {
    "client": (ClientSettings, ClientOptions),
    "producer": (ProducerSettings, ProducerOptions),
    "consumer": (ConsumerSettings, ConsumerOptions),
    "share_consumer": (ShareConsumerSettings, ShareConsumerOptions),
}


def settings_table(command: str, settings: type) -> str:
    """One row for each setting of a job: its keyword in Python, the flag of the command, its default."""
    context = click.Context(cli)
    flags = {option.name: option.opts[-1] for option in cli.get_command(context, command).params}
    flags |= {flag.removeprefix("--").replace("-", "_"): flag for flag in flags.values()}
    body = []
    for entry in fields(settings):
        flag = flags.get(entry.name) or flags.get(entry.name.replace("stamp_ms", ""))
        default = "" if entry.default in (None, (), MISSING) else f"`{entry.default}`"
        body.append((f"`{entry.name}`", f"`{flag}`" if flag else "", default, entry.metadata["meaning"]))
    return rows(("setting", f"flag of `{command}`", "default", "meaning"), body)


_LAZY_GROUPS = {
    "spec": spec.list_commands(click.Context(spec)),
    "analyze": analyze.list_commands(click.Context(analyze)),
}
# The public functions and methods that do what a command does. Commands of `spec` and `analyze` have "group command".
FUNCTIONS_OF_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "info": ("kafkaframes.describe_log",),
    "report": ("kafkaframes.report_log", "kafkaframes.report_traffic"),
    "grep": ("kafkaframes.grep_log",),
    "dump-log": ("kafkaframes.dump_log",),
    "verify": ("kafkaframes.verify_log",),
    "export": ("kafkaframes.export_log", "kafkaframes.export_topics"),
    "table": ("kafkaframes.table_log", "kafkaframes.table_topics"),
    "mirror": ("kafkaframes.mirror_topics",),
    "restore": ("kafkaframes.restore_log",),
    "repair": ("kafkaframes.repair_log",),
    "convert": ("kafkaframes.convert_log",),
    "recompress": ("kafkaframes.recompress_log",),
    "compact": ("kafkaframes.compact_log", "kafkaframes.prove_key_gone"),
    "consume": ("kafkaframes.Consumer.fetch_arrow", "kafkaframes.scan_topic"),
    "produce": ("kafkaframes.Producer.send_arrow", "kafkaframes.Producer.send"),
    "topics": (
        "kafkaframes.Admin.list_topics",
        "kafkaframes.Admin.create_topics",
        "kafkaframes.Admin.describe_topics",
        "kafkaframes.Admin.create_partitions",
        "kafkaframes.Admin.delete_topics",
        "kafkaframes.Admin.delete_records",
    ),
    "groups": (
        "kafkaframes.Admin.list_groups",
        "kafkaframes.Admin.describe_group",
        "kafkaframes.Admin.group_offsets",
        "kafkaframes.Admin.alter_group_offsets",
        "kafkaframes.Admin.delete_groups",
    ),
    "configs": ("kafkaframes.Admin.describe_configs", "kafkaframes.Admin.alter_configs"),
    "acls": ("kafkaframes.Admin.describe_acls", "kafkaframes.Admin.create_acls", "kafkaframes.Admin.delete_acls"),
    "users": ("kafkaframes.Admin.describe_user_scram_credentials", "kafkaframes.Admin.alter_user_scram_credentials"),
    "quotas": ("kafkaframes.Admin.describe_client_quotas", "kafkaframes.Admin.alter_client_quotas"),
    "transactions": (
        "kafkaframes.Admin.list_transactions",
        "kafkaframes.Admin.describe_transactions",
        "kafkaframes.Admin.abort_transaction",
    ),
    "checkpoint": ("kafkaframes.read_checkpoint", "kafkaframes.convert_checkpoint"),
    "audit": ("kafkaframes.audit_upgrade",),
    "record": ("kafkaframes.record_traffic",),
    "redact": ("kafkaframes.redact_capture",),
    "decode": ("kafkaframes.protocol.explain_message", "kafkaframes.protocol.explain_records"),
    "encode": ("kafkaframes.protocol.encode_message",),
    "diff": ("kafkaframes.protocol.compare_messages",),
    "spec propose": ("kafkaframes.measure_proposal",),
    "analyze records": ("kafkaframes.analyze_records",),
    "analyze tag-header": ("kafkaframes.analyze_tag_headers",),
    "vectors": ("kafkaframes.testing.write_vectors",),
    "spec list": ("kafkaframes.list_apis",),
    "spec show": ("kafkaframes.protocol.find_specs", "kafkaframes.protocol.describe_layout"),
    "spec diff": ("kafkaframes.protocol.compare_versions",),
    "spec show-codec": ("kafkaframes.protocol.Message.codec",),
    "spec stubs": ("kafkaframes.protocol.write_stubs",),
    "spec check": ("kafkaframes.protocol.check_specs",),
    "spec tags": ("kafkaframes.protocol.list_tags",),
    "spec lint": ("kafkaframes.protocol.lint_specs",),
    "spec guide": ("kafkaframes.protocol.write_guide",),
    "spec rewrite": ("kafkaframes.protocol.rewrite_specs",),
    "spec new-kip": ("kafkaframes.protocol.change_specs",),
    "spec import": ("kafkaframes.protocol.import_releases",),
}


def command_names() -> list[str]:
    """Return the names of all commands, in the order of ``--help``; "group command" for those of a group."""
    names = []
    for heading in COMMAND_SECTIONS.values():
        for name in heading:
            names += [f"{name} {one}" for one in _LAZY_GROUPS[name]] if name in _LAZY_GROUPS else [name]
    return names


def commands_table() -> str:
    """One row for each command that has functions, in the order of ``--help``."""
    body = []
    for command in command_names():
        functions = FUNCTIONS_OF_COMMANDS.get(command, ())
        if functions:
            body.append((f"`{command}`", ", ".join(f"`{name.removeprefix('kafkaframes.')}`" for name in functions)))
    return rows(("command", "functions and methods of `kafkaframes`"), body)


def flexible_releases_table() -> str:
    """One row for each release that brought first flexible versions: changed APIs, and new ones."""
    changed: dict[str, list[str]] = {name: [] for name in releases.list_releases()}
    new: dict[str, list[str]] = {name: [] for name in releases.list_releases()}
    for api in catalog.list_apis():
        release = None if api.flexible_since is None else releases.find_first_release_with(api.key, api.flexible_since)
        if release is not None:
            target = new if api.flexible_since == 0 else changed
            target[release].append(api.name if target is new else f"{api.name} {api.flexible_since}")
    body = [
        (name, str(len(changed[name])), ", ".join(changed[name]), str(len(new[name])), ", ".join(new[name]))
        for name in releases.list_releases()
        if changed[name] or new[name]
    ]
    return rows(
        ("release", "changed", "APIs and first flexible versions", "new", "APIs that are flexible from 0 on"), body
    )


def everyday_table(module: str) -> str:
    """One row for each behaviour that a module of tests/everyday shows; the last run says where it holds."""
    body = []
    stored = outcomes.load()
    for test in tests_of(importlib.import_module(f"tests.everyday.{module}")):
        behaviour: Behaviour = test.behaviour  # type: ignore[attr-defined]
        peers = "; ".join(f"{PEERS[peer]} (`{source}`)" for peer, source in sorted(behaviour.sources.items()))
        key = f"{module}::{test.__name__}"
        cells = [stored.get(column, {}).get("outcomes", {}).get(key, "") for column in outcomes.COLUMNS]
        body.append((behaviour.title, peers, behaviour.ours, *cells))
    return rows(("behaviour", "peers", "ours", *outcomes.COLUMNS.values()), body)


def everyday_counts_table() -> str:
    """One row for each cluster: how many behaviours were run on it, when, and how many hold."""
    body = []
    stored = outcomes.load()
    for column, title in outcomes.COLUMNS.items():
        run = stored.get(column, {"date": "never", "outcomes": {}})
        cells = list(run["outcomes"].values())
        holds, differs = cells.count(outcomes.HOLDS), cells.count(outcomes.DIFFERS)
        body.append((title, run["date"], str(holds + differs), str(holds)))
    return rows(("cluster", "date of the run", "behaviours run", "hold"), body)


def peers_table(module: str) -> str:
    """One row for each performance of a module of tests/interop/peers: for each peer, the verdict of its last run."""
    body = []
    stored = peer_results.load()
    for performance in peer_behaviours.load_behaviours().values():
        if performance.name.partition("::")[0] != module:
            continue
        cells = []
        for adapter in (*peer_behaviours.PEERS, peer_behaviours.OURS):
            verdict = stored.get(adapter, {}).get("verdicts", {}).get(performance.name, "")
            reason = performance.differences.get(adapter, "")
            cells.append(f"{verdict}; {reason}" if verdict and reason else verdict)
        body.append((performance.title, *cells))
    return rows(("behaviour", *peer_behaviours.PEERS.values(), "ours"), body)


def peer_counts_table() -> str:
    """One row for each client: its release, and how many behaviours equal ours, differ or cannot be performed."""
    body = []
    stored = peer_results.load()
    for adapter, title in (peer_behaviours.PEERS | {peer_behaviours.OURS: "kafkaframes"}).items():
        run = stored.get(adapter, {"version": "", "date": "never", "verdicts": {}})
        verdicts = list(run["verdicts"].values())
        counts = [str(verdicts.count(word)) for word in (peer_results.EQUAL, peer_results.DIFFERS, peer_results.CANNOT)]
        body.append((title, run["version"], run["date"], str(len(verdicts)), *counts))
    return rows(("client", "release", "date of the run", "performed", "equal", "differ", "cannot"), body)


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "long-runs": (ROOT / "docs" / "long-tests.md", long_runs_table),
    "formats": (ROOT / "README.md", formats_table),
    "options": (KAFKA_LOG, options_table),
    "write-options": (WRITING, write_options_table),
    "topic-options": (KAFKA_TOPIC, partial(write_options_table, TOPIC_OPTIONS)),
    "topic-write-options": (KAFKA_TOPIC, partial(write_options_table, TOPIC_WRITE_OPTIONS)),
    "columns": (KAFKA_LOG, records_table),
    "batches": (KAFKA_LOG, batches_table),
    "internal": (ROOT / "docs" / "internal-topics.md", internal_table),
    "segments": (KAFKA_LOG, segments_table),
    "storage": (KAFKA_LOG, storage_table),
    "broker-apis": (ROOT / "docs" / "broker-support.md", broker_apis_table),
    "differences": (ROOT / "docs" / "broker-support.md", differences_table),
    "rights": (ROOT / "docs" / "broker-support.md", rights_table),
    "java-admin": (ROOT / "docs" / "java-admin.md", java_admin_table),
    **{
        f"{client}-settings": (ROOT / "docs" / "client-settings.md", partial(client_settings_table, client))
        for client in CLIENT_SETTINGS
    },
    "client-metrics": (ROOT / "docs" / "client-metrics.md", client_metrics_table),
    "java-settings": (ROOT / "docs" / "client-settings.md", java_settings_table),
    "migration": (ROOT / "docs" / "migration.md", migration_table),
    "addresses": (ROOT / "docs" / "recording.md", addresses_table),
    "redaction": (ROOT / "docs" / "recording.md", redaction_table),
    "restore-settings": (JOB_SETTINGS, partial(settings_table, "restore", RestoreSettings)),
    "mirror-settings": (JOB_SETTINGS, partial(settings_table, "mirror", MirrorSettings)),
    "rewrite-settings": (JOB_SETTINGS, partial(settings_table, "convert", ConvertSettings)),
    "compact-settings": (JOB_SETTINGS, partial(settings_table, "compact", CompactSettings)),
    "export-settings": (JOB_SETTINGS, partial(settings_table, "export", ExportSettings)),
    "table-settings": (JOB_SETTINGS, partial(settings_table, "table", TableSettings)),
    "audit-settings": (JOB_SETTINGS, partial(settings_table, "audit", AuditSettings)),
    "flexible-releases": (ROOT / "docs" / "flexible-versions.md", flexible_releases_table),
    "everyday-counts": (ROOT / "docs" / "everyday.md", everyday_counts_table),
    "commands": (REFERENCE / "functions-of-commands.md", commands_table),
    "decisions": (ROOT / "docs" / "many-copies.md", decisions_table),
    "peer-counts": (ROOT / "docs" / "everyday-peers.md", peer_counts_table),
    **{
        f"peers-{module}": (ROOT / "docs" / "everyday-peers.md", partial(peers_table, module))
        for module in peer_behaviours.MODULES
    },
} | {module: (ROOT / "docs" / "everyday.md", partial(everyday_table, module)) for module in MODULES}


def with_table(text: str, name: str, table: str) -> str:
    """Return ``text`` with the table between the marks called ``name``."""
    pattern = rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)"
    made, count = re.subn(pattern, lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"no place for the table {name}")
    return made


def main() -> None:
    """Rewrite every table."""
    for name, (path, make) in TABLES.items():
        path.write_text(with_table(path.read_text(), name, make()))


if __name__ == "__main__":
    main()
