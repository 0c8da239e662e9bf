"""Write the states that ``test_upgrades.py`` continues. An earlier commit of the package runs this file.

The states in ``tests/data/upgrades`` were written by commit 7f43a10d, the last one before the names of the whole
package were edited. To write them again::

    git worktree add --detach /tmp/earlier 7f43a10d
    PYTHONPATH=/tmp/earlier/src python tests/upgrades/write_states.py tests/data/upgrades

The file uses the names of that commit. Several jobs are stopped in the middle by an exception, as Ctrl-C would.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import (
    AclBinding,
    Admin,
    CommittedOffset,
    Consumer,
    NewTopic,
    Producer,
    QuotaEntity,
    ScramCredential,
    ShareConsumer,
    TopicPartition,
)

START_TIME_MS = 1_700_000_000_000
BROKER_TIME = START_TIME_MS + 1_000_000  # at the start of the broker: states expire by its clock
FILE_TIME = START_TIME_MS // 1000  # modification time of all files, by which jobs recognize their sources
TEXTS_WITH_PATHS = ("iceberg.metadata.json", "summary.json", ".kafkaframes-streams")
_WAIT_MS = 60_000


class JobStoppedError(KeyboardInterrupt):
    """Stops a job before it is complete."""


def send_records(producer, first, end, *, topic="orders", partitions=2, keys=7):
    """Send numbered records to the partitions in turn. The number determines the content."""
    for number in range(first, end):
        producer.send(
            topic,
            key=b"k%d" % (number % keys),
            value=b"value %d" % number,
            partition=number % partitions,
            timestamp_ms=START_TIME_MS + number,
            headers=[("number", b"%d" % number)],
        )
    producer.flush()


def run_command(*arguments, is_stopped=False):
    """Run a command in this process. If ``is_stopped`` is set, ``stop_exports_after`` must stop the command."""
    from kafkaframes.cli.main import cli

    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert (result.exit_code != 0) == is_stopped, result.output


def pack_folder(folder, target):
    """Write a folder to an archive without file times and owners."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.name == ".lock" or path.suffix == ".crc":
                continue
            if path.name in TEXTS_WITH_PATHS or path.suffix == ".jsonl":
                path.write_text(path.read_text().replace(str(folder), "@ROOT@"))
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.mtime = FILE_TIME
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    target.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{target.name}: {target.stat().st_size:,} bytes")


# ----------------------------------------------------------------------------------------------------------------- logs


def write_logs(root):
    """Write ``log-1``, a log with two partitions, and ``log-2``, the same log after it has grown."""
    data = root / "data"
    with Broker(data_dir=data) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            configs = {"segment.bytes": "1500", "retention.ms": "-1"}
            admin.create_topics([NewTopic("orders", num_partitions=2, configs=configs)])
        with Producer(servers, batch_size=400, linger_ms=5) as producer:
            send_records(producer, 0, 120)
        with Producer(servers, batch_size=400, transactional_id="writer") as producer:
            producer.begin_transaction()
            send_records(producer, 120, 140)
            producer.abort_transaction()
            producer.begin_transaction()
            send_records(producer, 140, 160)
            producer.commit_transaction()
        with Consumer(servers, group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.commit({TopicPartition("orders", 0): 17})
    shutil.copytree(data, root / "log-1")
    with Broker(data_dir=data) as broker, Producer(broker.bootstrap_servers, batch_size=400) as producer:
        send_records(producer, 160, 240)
    data.rename(root / "log-2")
    for log in ("log-1", "log-2"):
        for path in (root / log).glob("__*"):
            if not any(file.stat().st_size for file in path.glob("*.log")):
                shutil.rmtree(path)
        for path in (root / log).rglob("*"):
            os.utime(path, (FILE_TIME, FILE_TIME))


# -------------------------------------------------------------------------------------------------------------- exports


@contextmanager
def stop_exports_after(count):
    """Stop an export after so many files."""
    from kafkaframes.jobs.export import task

    original, calls = task.export_file, 0

    def export_file(tasks, settings, **options):
        nonlocal calls
        if calls == count:
            Path(settings.to, "_kafkaframes", "tmp", "part").write_bytes(b"PAR1")
            raise JobStoppedError
        calls += 1
        return original(tasks, settings, **options)

    task.export_file = export_file
    try:
        yield
    finally:
        task.export_file = original


def write_exports(root):
    """Write complete exports of ``log-1`` in three formats, and one that was stopped after two files."""
    log = root / "log-1"
    run_command("export", log, "--to", root / "parquet", "--workers", 1)
    run_command("export", log, "--to", root / "csv", "--format", "csv", "--base64", "--workers", 1)
    run_command("export", log, "--to", root / "json", "--format", "json", "--key-regex", "k[0-4]", "--workers", 1)
    run_command("export", log, "-o", root / "backup.parquet")
    with stop_exports_after(2):
        run_command("export", log, "--to", root / "stopped", "--workers", 1, is_stopped=True)


# --------------------------------------------------------------------------------------------------------------- tables


def write_tables(root):
    """Write tables of ``log-1``: Parquet files, two of Delta, and the properties of an Iceberg table."""
    log = root / "log-1"
    for form in ("parquet", "delta", "iceberg"):
        run_command("table", log, "--to", form, root / form, "--workers", 1)
    run_command("export", log, "--to", root / "exported-delta", "--format", "delta", "--workers", 1)
    run_command("table", log, "--to", "delta", root / "latest", "--mode", "latest", "--workers", 1)
    newest = max((root / "iceberg").rglob("*.metadata.json"))
    newest.rename(root / "iceberg.metadata.json")
    shutil.rmtree(root / "iceberg")


# -------------------------------------------------------------------------------------------------------------- mirrors


def read_log(directory):
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def write_mirrors(root):
    """Write copies of ``log-1``: a directory, one of a killed mirror, and one of a broker that assigned new offsets."""
    run_command("mirror", "--from", root / "log-1", "--to", root / "copy")
    with Broker(serve=root / "log-1") as source:
        arguments = ["mirror", "--from", source.bootstrap_servers, "--to", str(root / "killed"), "--follow"]
        process = subprocess.Popen([sys.executable, "-m", "kafkaframes", *arguments])
        sizes = {f"orders-{number}": len(read_log(root / "log-1" / f"orders-{number}")) for number in (0, 1)}
        while any(len(read_log(root / "killed" / name)) < size for name, size in sizes.items()):
            time.sleep(0.1)
        process.kill()
        process.wait()
    with Broker(data_dir=root / "target") as broker:
        rest = broker.on("Produce", topic="orders").after(3).ignore()
        process = subprocess.Popen(
            [sys.executable, "-m", "kafkaframes", "mirror", "--from", str(root / "log-1"), "--to",
             broker.bootstrap_servers, "--offsets", "reassign", "--state", str(root / "state")]
        )  # fmt: skip
        broker.wait_for(lambda: rest.count > 3)
        process.kill()
        process.wait()
        rest.remove()


# ----------------------------------------------------------------------------------------------------------------- jobs


def write_jobs(root):
    """Write the results of jobs whose later runs recognize them: a conversion, a compaction, a restore."""
    with contextlib.chdir(root):
        run_command("convert", "log-1", "--record-format", "v2", "--codec", "gzip", "--to", "converted")
        run_command("recompress", "log-1", "--codec", "gzip", "--to", "recompressed")
        run_command("compact", "log-1", "--to", "compacted")
        run_command("restore", "log-1", "--to", "restored", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ")


# --------------------------------------------------------------------------------------------------------------- broker


BROKER_CONFIG = {
    "log.cleaner.backoff.ms": "50",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "delegation.token.secret.key": "of this cluster",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
}
ADMIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "admin",
    "sasl_password": "secret",
}


def start_clock():
    """Return a clock that starts at ``BROKER_TIME``."""
    from kafkaframes.broker.clock import Clock

    start = time.monotonic_ns()
    return Clock(lambda: BROKER_TIME + (time.monotonic_ns() - start) // 1_000_000)


def write_broker(root):
    """Write a broker's directory twice: as a killed broker leaves it, and after a clean stop.

    It has topics with settings, a compacted topic, producers, transactions (committed, aborted, open), groups of three
    kinds, an access rule, a user, a quota, a token and dynamic settings.
    """
    data = root / "running"
    security = Security(users={"admin": "secret"}, authorizer=True)
    with Broker(data_dir=data, config=BROKER_CONFIG, security=security, clock=start_clock()) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers, **ADMIN) as admin:
            small = {"segment.bytes": "1500", "retention.ms": "-1"}
            compacted = {"segment.bytes": "1500", "cleanup.policy": "compact"}
            admin.create_topics(
                [NewTopic("orders", num_partitions=2, configs=small), NewTopic("keys", configs=compacted), "shared"]
            )
            admin.create_acls([AclBinding("topic", "orders", "User:alice", "read")])
            admin.alter_user_scram_credentials([ScramCredential("alice", "password", "SCRAM-SHA-256", 4096)])
            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000.0}})
            admin.create_delegation_token(["User:alice"])
            admin.alter_configs("broker", "", {"log.retention.ms": "123456789"})
            admin.alter_configs("topic", "orders", {"max.message.bytes": "123456"})
            admin.alter_configs("group", "sharers", {"share.auto.offset.reset": "earliest"})
        with Producer(servers, batch_size=400, **ADMIN) as producer:
            send_records(producer, 0, 60)
            send_records(producer, 0, 300, topic="keys", partitions=1, keys=3)
            send_records(producer, 0, 10, topic="shared", partitions=1)
        with Producer(servers, transactional_id="finished", **ADMIN) as producer:
            for first, end in ((60, "commit"), (70, "abort")):
                producer.begin_transaction()
                send_records(producer, first, first + 10)
                producer.commit_transaction() if end == "commit" else producer.abort_transaction()
        for protocol in ("classic", "consumer"):
            with Consumer(
                servers,
                group_id=f"{protocol} readers",
                group_protocol=protocol,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **ADMIN,
            ) as consumer:
                consumer.subscribe(["orders"])
                consumer.poll(_WAIT_MS)
                offsets = {0: CommittedOffset(7, 0, "of partition 0"), 1: CommittedOffset(9, 0, "")}
                consumer.commit({TopicPartition("orders", number): offset for number, offset in offsets.items()})
        with ShareConsumer(
            servers, group_id="sharers", share_acknowledgement_mode="explicit", max_poll_records=10, **ADMIN
        ) as consumer:
            consumer.subscribe(["shared"])
            records = []
            while len(records) < 10:
                records += consumer.poll(_WAIT_MS)
            for kind, part in (("accept", records[:4]), ("reject", records[4:5]), ("release", records[5:])):
                consumer.acknowledge(part, kind)
            consumer.commit()
        running = Producer(servers, transactional_id="running", transaction_timeout_ms=900_000, **ADMIN)
        running.begin_transaction()
        send_records(running, 80, 90)
        broker.wait_for(lambda: "keys 0" in get_checkpoint(data))
        shutil.copytree(data, root / "killed")
        running.abort_transaction()
        running.close()
    data.rename(root / "stopped")


def get_checkpoint(data):
    path = data / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


# ---------------------------------------------------------------------------------------------------------------- Spark


def write_queries(root):
    """Write checkpoints and sinks of three streaming queries, two micro-batches each.

    One query writes ``log-1`` to the log directory ``written``. The others write the topic ``in`` exactly once, to
    ``function`` with ``write_topic`` and to ``format`` with ``writeStream.format``.
    """
    import kafkaframes

    spark = kafkaframes.spark.session("states", master="local[2]", memory="512m", config={"spark.ui.enabled": "false"})

    def finish(query):
        assert query.awaitTermination(240)

    try:
        logs = spark.readStream.format("kafka-log").option("maxOffsetsPerTrigger", 90)
        logs = logs.options(startingOffsets="earliest", isolation="read_committed")
        frame = logs.load(str(root / "log-1")).select("key", "value")
        writer = frame.writeStream.format("kafka-log").option("topic", "orders").trigger(availableNow=True)
        finish(writer.option("checkpointLocation", str(root / "written.checkpoint")).start(str(root / "written")))
        config = {"transaction.state.log.num.partitions": 1, "log.index.size.max.bytes": 65536}
        with Broker(data_dir=root / "data", config=config, clock=start_clock()) as broker:
            servers = broker.bootstrap_servers
            with Admin(servers) as admin:
                admin.create_topics([NewTopic(name, num_partitions=2) for name in ("in", "function", "format")])
            with Producer(servers) as producer:
                send_records(producer, 0, 40, topic="in")
            topics = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
            topics = topics.options(subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=25)
            frame = topics.load().select("key", "value")
            options = {"kafka.bootstrap.servers": servers, "topic": "function"}
            checkpoint, trigger = str(root / "function.checkpoint"), {"availableNow": True}
            finish(kafkaframes.spark.write_topic(frame, options, checkpoint=checkpoint, trigger=trigger))
            writer = frame.writeStream.format("kafka-topic").options(
                **{**options, "topic": "format"}, delivery="exactly-once"
            )
            writer = writer.option("checkpointLocation", str(root / "format.checkpoint")).trigger(availableNow=True)
            finish(writer.start())
    finally:
        spark.stop()


WRITERS_BY_NAME = {
    "exports": write_exports,
    "tables": write_tables,
    "mirrors": write_mirrors,
    "jobs": write_jobs,
    "broker": write_broker,
    "queries": write_queries,
}


def main(target, *names):
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_logs(root)
        logs = {root / "log-1", root / "log-2"}
        if not names or "logs" in names:
            pack_folder(root, target / "logs.tar.xz")
        for name, write in WRITERS_BY_NAME.items():
            if names and name not in names:
                continue
            write(root)
            for log in logs:
                log.rename(root.parent / f"{root.name}-{log.name}")
            pack_folder(root, target / f"{name}.tar.xz")
            for path in root.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for log in logs:
                (root.parent / f"{root.name}-{log.name}").rename(log)


if __name__ == "__main__":
    os.environ.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    main(Path(sys.argv[1]), *sys.argv[2:])
