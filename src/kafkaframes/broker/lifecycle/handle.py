"""``Broker``: the public class of the embedded broker, for synchronous code, asyncio code and tests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kafkaframes.broker.dispatch.dispatch import Dispatcher, Hook
from kafkaframes.broker.dispatch.fast_path import FastPath
from kafkaframes.broker.dispatch.table import select_release_apis, serve_specs
from kafkaframes.broker.faults import controls
from kafkaframes.broker.faults.controls import (
    GroupInfo,
    TopicInfo,
    TransactionInfo,
    append_batches,
    build_producer_batches,
    decode_records,
    describe_groups,
    describe_topics,
    describe_transactions,
    report_clients,
)
from kafkaframes.broker.faults.disk_faults import DiskFaults, DiskRule
from kafkaframes.broker.faults.faults import Faults, Rule
from kafkaframes.broker.faults.journal import Journal, RequestLog
from kafkaframes.broker.faults.rules import RuleHistory
from kafkaframes.broker.lifecycle.arguments import Cluster, MetricsEndpoint, Paths, ServedLogs
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.lifecycle.maintenance import LogCleaner, Maintenance
from kafkaframes.broker.lifecycle.opening import (
    Snapshot,
    find_unserved_data,
    open_in_thread,
    take_snapshot,
    to_path_tuple,
    write_snapshot,
)
from kafkaframes.broker.network.metrics import PROMETHEUS_CONTENT_TYPE, build_metrics_text
from kafkaframes.broker.network.ports import Ports, check_listeners
from kafkaframes.broker.network.server import Connection, Server
from kafkaframes.broker.requests.request import find_catalog_class
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.broker.settings.settings import KAFKA_DEFAULTS, BrokerSettings
from kafkaframes.broker.state.clock import BrokerClock, Clock, LoopThread, WorkerThreads
from kafkaframes.broker.state.coordinators import resolve_patterns_in_thread
from kafkaframes.broker.state.elections import start_node, stop_node
from kafkaframes.broker.state.internal import RecordsInMemory
from kafkaframes.broker.state.state import LOG, MEMORY, BrokerState
from kafkaframes.broker.state.topics import Node, Nodes
from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.protocol.messages.registry import Specs
from kafkaframes.records.batch import Record
from kafkaframes.storage.copies.decisions import MERGE
from kafkaframes.storage.files.directory import Remark
from kafkaframes.storage.files.disk import Disk
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.memory_disk import MemoryDisk

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.broker.network.http_server import HttpServer, PlainTextResponse

_Answer = TypeVar("_Answer")
_RESOLVING_THREADS = 2  # threads that match subscription patterns, like Kafka's group.coordinator.background.threads
_AUTHENTICATING_THREADS = 4  # threads for authentication, which may wait for files or name resolution


def _build_defaults(nodes: int) -> dict[str, str]:
    """Return the defaults for several nodes, with which topics stay available if one node stops."""
    return {"default.replication.factor": str(nodes)} if nodes > 1 else {}


class Broker:
    """An embedded broker: ``with Broker() as b: ...``, or ``async with``.

    In synchronous code the broker runs in its own thread, in asyncio code on the running event loop. A process can run
    several independent brokers.

    Args:
        host: address to listen on. The default accepts only local connections.
        port: port to listen on; 0 selects a free port, which the property ``port`` returns.
        listeners: several listeners, each with its own address, advertised address and security, instead of ``host``
            and ``port``. ``port`` and ``bootstrap_servers`` return the first listener.
        data_dir: Kafka log directory of this broker. If None, all data is in memory: ``kill`` and ``restart`` keep the
            data, and ``stop`` discards it.
        durability: what an acknowledgement guarantees. ``memory``: nothing. ``log``: the records are written before the
            ack and survive ``kill -9``; the default with a ``data_dir``. ``fsync``: the records are flushed to disk
            before the ack.
        serve: log directories and tiered stores to serve read-only, instead of a ``data_dir``: paths, or ``ServedLogs``
            with options.
        adopt: whether to accept a ``data_dir`` that another broker created.
        cluster: number of virtual nodes, or ``Cluster`` with their racks.
        config: broker settings under their names in Kafka, such as ``num.partitions``.
        kafka_defaults: whether to use Kafka's defaults for all settings. Some defaults are shorter here so that tests
            do not wait.
        clock: the broker's clock. By default, the broker creates a clock, which a test can ``advance``.
        journal: whether to record requests and responses (``.journal``) and to allow faults (``.on``). Without a
            journal, ordinary requests take a faster path.
        security: options for SASL, TLS and ACLs. By default, all clients may do everything.
        broker_release: Kafka release to emulate (``0.8.2`` ... ``4.3``). The broker advertises and serves exactly the
            APIs and versions of this release.
        specs: a folder with message specs, or the specs themselves, which replace the catalog's specs of the same
            messages. The specs can be from a proposal, such as KIP-636.
        metrics: local port for Prometheus metrics (0 selects a free port), or ``MetricsEndpoint`` with another address.
        request_log: called with one line for each request, in the format of Kafka's request log.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listeners: Sequence[ListenerOptions] = (),
        data_dir: str | PathLike[str] | None = None,
        serve: Paths | ServedLogs | None = None,
        adopt: bool = False,
        durability: str | None = None,
        cluster: int | Cluster = 1,
        config: Mapping[str, str | int | bool] | None = None,
        kafka_defaults: bool = False,
        clock: Clock | None = None,
        journal: bool = True,
        security: Security | None = None,
        broker_release: str | None = None,
        specs: Specs | None = None,
        metrics: int | MetricsEndpoint | None = None,
        request_log: Callable[[str], None] | None = None,
    ) -> None:
        cluster = Cluster(cluster) if isinstance(cluster, int) else cluster
        served_logs = serve if isinstance(serve, ServedLogs) or serve is None else ServedLogs(serve)
        nodes = cluster.nodes
        if specs is not None and broker_release is not None:
            raise OptionError("broker_release cannot be combined with specs")
        self.host = listeners[0].host if listeners else host
        self._remarks: tuple[Remark, ...] = ()
        explicit = {key: controls.format_setting(value) for key, value in (config or {}).items()}
        self._settings = BrokerSettings(explicit if kafka_defaults else {**_build_defaults(nodes), **explicit})
        if kafka_defaults:
            self._settings.defaults = KAFKA_DEFAULTS
            self._settings.new_topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        first = self._settings.get_number("node.id")
        self._nodes = Nodes({number: Node(number) for number in range(first, first + nodes)})
        for node, rack in zip(self._nodes.by_id.values(), cluster.racks, strict=False):
            node.rack = rack
        self._clock = clock or Clock()
        self._journal = Journal(lambda: self._clock.monotonic_ms) if journal else None
        self._snapshot: Snapshot | None = None
        self._records_in_memory = RecordsInMemory()  # used from start to stop if the broker serves directories
        self._memory: Disk | None = None  # used from start to stop if the broker has no data_dir
        security = security or Security()
        self._ports = Ports(
            check_listeners(listeners, security, host, nodes),
            self._nodes,
            security,
            listeners[0].port if listeners else port,
        )
        self._metrics_address = MetricsEndpoint(metrics) if isinstance(metrics, int) else metrics
        self._metrics: HttpServer | None = None
        self._request_log = None
        if request_log is not None:
            now_ms, monotonic_ms = (lambda: self._clock.now_ms), (lambda: self._clock.monotonic_ms)
            self._request_log = RequestLog(request_log, now_ms, monotonic_ms)
        self._served_specs = None if specs is None else serve_specs(specs)
        if broker_release is not None:
            self._served_specs = select_release_apis(broker_release, self._settings)
        self.rule_history = RuleHistory()
        self._faults = Faults(self._clock, lambda: self._state, self.rule_history)
        self._disk_faults = DiskFaults(self.rule_history)
        self._security = security
        self._data_dir = None if data_dir is None else fspath(data_dir)
        self._serve = to_path_tuple(None if served_logs is None else served_logs.paths)
        self._durability = durability or (MEMORY if data_dir is None else LOG)
        self._open_state = partial(
            open_broker,
            data_dir=self._data_dir,
            serve=self._serve,
            replicas=MERGE if served_logs is None else served_logs.replicas,
            storage=None if served_logs is None else served_logs.storage,
            adopt=adopt,
            durability=durability,
            settings=self._settings,
            clock=self._clock,
            nodes=self._nodes,
            disk_faults=self._disk_faults if journal else None,
        )
        self._loop = LoopThread()
        self._cleaning: LogCleaner | None = None
        self._worker_threads: tuple[WorkerThreads, ...] = ()
        self._state: BrokerState | None = None
        self._server: Server | None = None

    def __repr__(self) -> str:
        """Return one line with the address."""
        state = self.bootstrap_servers if self.is_running else "not running"
        return f"<Broker {state}>"

    # ---------------------------------------------------------------------------------------------- life

    def start(self) -> Self:
        """Start the broker in its own thread. Return when the broker accepts connections.

        Raises:
            LogDirError, StorageError: the data directory cannot be opened.
            OSError: the address is in use.
        """
        if self._server is not None:
            raise OptionError("the broker is already running")
        self._loop.start()
        try:
            self._loop.call(self._open(), timeout=None)  # no timeout, because many logs may have to be recovered
        except BaseException:
            self._loop.end()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker cleanly: flush and close all logs. If the disk has failed before, the logs are not flushed.

        Raises:
            StorageError: flushing or closing a log fails.
        """
        self._ports.comes_back = False
        self._stop_broker()
        self._delete_memory_data()
        self._ports.held.release_all()

    def _delete_memory_data(self) -> None:
        """Discard the data of an in-memory broker."""
        self._memory = None
        self._records_in_memory = RecordsInMemory()

    def _stop_broker(self, *, flushes: bool = True) -> None:
        """Close the broker, and end its event loop."""
        if self._server is None:
            return
        try:
            self._loop.call(self._close_broker(flushes=flushes), timeout=None)
        finally:
            self._loop.end()

    def kill(self, *, node: int | None = None, power_cut: bool = False) -> None:
        """Stop the broker as a crash does: close all connections, flush no log, write no clean-shutdown marker.

        After the next start all written data is available, as the page cache survives ``kill -9``. An in-memory broker
        keeps and loses the same data as one with a ``data_dir``. The ports stay reserved until the broker is started
        again or stopped.

        Args:
            node: virtual node to stop, as :meth:`stop_node` does; None stops the whole broker. All nodes share one log,
                so that the other nodes continue with all data.
            power_cut: discard data that was not flushed to disk. With ``durability="fsync"``, every acknowledged record
                survives; with ``log``, data that was flushed in the background. Without a ``data_dir``, all data is
                lost.

        Raises:
            OptionError: the node does not exist; or ``power_cut`` is set together with ``node``, for a broker without
                a journal, or for a broker that serves a directory.
        """
        if node is not None:
            if power_cut:
                raise OptionError(
                    f"power_cut affects the whole broker, because its nodes share a disk; node={node} cannot be set"
                )
            self.stop_node(node)
            return
        if power_cut and self._serve:
            raise OptionError("power_cut has no effect on a broker that serves a directory read-only")
        if power_cut and self._journal is None:
            raise OptionError("power_cut requires a broker with journal=True, which records flushes")
        self._stop_broker(flushes=False)
        if power_cut and self._data_dir is None:
            self._memory = None
        elif power_cut and self._disk_faults.unflushed is not None:
            self._disk_faults.unflushed.discard()

    def restart(self) -> Self:
        """Stop the broker if it runs, and start it again on the same ports with the same data.

        The ports stay reserved in the meantime.
        """
        self._ports.comes_back = True
        self._stop_broker()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._loop.join_running()
        await self._open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._close_broker()
        self._delete_memory_data()
        self._loop.end()

    async def _open(self) -> None:
        """Open the broker's data and its listeners."""
        snapshot, self._snapshot = self._snapshot, None
        access, credentials = self._security.access(self._settings), self._security.credentials()
        open_state = partial(self._open_state, access=access, credentials=credentials)
        if self._serve:
            self._state = await open_in_thread(partial(open_state, records_in_memory=self._records_in_memory))
        else:
            self._state = open_state(disk=self._choose_disk(snapshot))
        self._remarks = self._state.remarks
        settings = self._settings
        self._server = Server(
            self._create_dispatcher(self._state),
            self._clock,
            max_request_bytes=settings.get_number("socket.request.max.bytes"),
            max_sasl_bytes=settings.get_number("sasl.server.max.receive.size"),
            max_queued_bytes=settings.queued_max_bytes,
            max_connections=settings.get_number("max.connections"),
            max_idle_seconds=settings.get_number("connections.max.idle.ms") / 1000,
        )
        dispatcher = self._server.dispatcher
        if not dispatcher.hooks and dispatcher.class_of is find_catalog_class and self._state.store is None:
            self._server.fast = FastPath(dispatcher)
        self._state.changes.next_turn = self._server.loop.call_soon
        self._state.changes.in_thread = change_threads = WorkerThreads(self._server.loop)
        self._state.credentials.in_thread = authentication_threads = WorkerThreads(
            self._server.loop, _AUTHENTICATING_THREADS
        )
        pattern_threads = WorkerThreads(self._server.loop, _RESOLVING_THREADS)
        resolve_patterns_in_thread(self._state, pattern_threads)
        self._worker_threads = (change_threads, authentication_threads, pattern_threads)
        Maintenance(self._state)
        self._cleaning = cleaner = LogCleaner(self._state)
        cleaner.run_work = cleaner.run_in_thread
        try:
            await self._open_listeners()
        except BaseException:
            await cleaner.stop()
            await self._server.close()
            self._state.logs.abandon()
            self._server = self._state = None
            raise

    def _choose_disk(self, snapshot: Snapshot | None) -> Disk | None:
        """Return the disk for the next start; None for the local file system."""
        if snapshot is not None:
            disk = write_snapshot(snapshot, self._data_dir)
        elif self._data_dir is None:
            disk = self._memory or MemoryDisk()
        else:
            return None
        self._memory = disk if self._data_dir is None else None
        return disk

    def _create_dispatcher(self, state: BrokerState) -> Dispatcher:
        hooks: list[Hook] = [] if self._journal is None else [self._journal, self._faults]
        if self._request_log is not None:
            hooks.append(self._request_log)
        if self._served_specs is None:
            return Dispatcher(state, hooks=hooks)
        state.advertised = self._served_specs.advertised
        return Dispatcher(state, apis=self._served_specs.apis, class_of=self._served_specs.class_of, hooks=hooks)

    async def _open_listeners(self) -> None:
        assert self._server is not None
        await self._ports.open_all(self._server)
        address = self._metrics_address
        if address is not None:
            # Imported here, so that the first request is not delayed.
            from kafkaframes.broker.network.http_server import (
                HttpServer,
                Route,
            )

            self._metrics = HttpServer(
                [Route("GET", "/metrics", self._build_metrics_text)], host=address.host, port=address.port
            )

    def _build_metrics_text(self, _: object) -> PlainTextResponse:
        from kafkaframes.broker.network.http_server import PlainTextResponse

        return PlainTextResponse(
            self.call(lambda state: build_metrics_text(state, len(self.connections()))), PROMETHEUS_CONTENT_TYPE
        )

    @property
    def metrics_port(self) -> int | None:
        """The port of the Prometheus metrics; None if metrics are not served."""
        return None if self._metrics is None else self._metrics.port

    @property
    def metrics_url(self) -> str | None:
        """The URL of the Prometheus metrics; None if metrics are not served."""
        return None if self._metrics is None else f"{self._metrics.url}/metrics"

    async def _close_broker(self, *, flushes: bool = True) -> None:
        """Close all connections, then close the logs. Without ``flushes`` the logs are abandoned, as in a crash."""
        metrics, self._metrics = self._metrics, None
        if metrics is not None:
            await asyncio.get_running_loop().run_in_executor(None, metrics.close)
        if self._server is None or self._state is None:
            return
        await self._server.close()
        self._ports.comes_back |= not flushes
        if self._ports.comes_back:
            self._ports.hold()
        else:
            self._ports.held.release_all()
        if self._cleaning is not None:
            await self._cleaning.stop()
        state = self._state
        self._remarks += find_unserved_data(state.logs)
        self._state = self._server = None
        state.changes.stop()
        for threads in self._worker_threads:
            threads.stop()
        if state.store is not None:
            state.store.close()
        if flushes and state.logs.disk.failure is None:
            state.logs.close(now_ms=self._clock.now_ms)
        else:  # after a disk failure, which producers have seen as errors, a flush would write an incomplete log
            state.logs.abandon()

    # ---------------------------------------------------------------------------------------------- questions

    def call(self, ask: Callable[[BrokerState], _Answer]) -> _Answer:
        """Call a function with the broker's state on the broker's thread, and return its result.

        Raises:
            OptionError: the broker is not running.
        """
        if self._state is None or self._loop.loop is None:
            raise OptionError("the broker is not running")
        state = self._state
        if self._loop.is_current:
            return ask(state)

        async def asking() -> _Answer:
            return ask(state)

        return self._loop.call(asking())

    @property
    def is_running(self) -> bool:
        """Whether the broker accepts connections."""
        return self._server is not None

    def connections(self) -> tuple[Connection, ...]:
        """Return the open connections."""
        return () if self._server is None else tuple(self._server.connections)

    @property
    def port(self) -> int:
        """The port of the first node, on its first listener."""
        return self._ports.first

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all nodes, separated by commas, for a client's ``bootstrap.servers``."""
        return self._ports.addresses

    @property
    def durability(self) -> str:
        """The guarantee of an acknowledgement: ``memory``, ``log`` or ``fsync``."""
        return self._durability

    # ---------------------------------------------------------------------------------------------- for tests

    @property
    def topics(self) -> dict[str, TopicInfo]:
        """The topics by name. Internal topics are excluded."""
        return self.call(describe_topics)

    @property
    def groups(self) -> dict[str, GroupInfo]:
        """The groups by name, with their type, state, members, assignments and committed offsets."""
        return self.call(describe_groups)

    @property
    def transactions(self) -> dict[str, TransactionInfo]:
        """The transactions by transactional id, with their state, producer id, producer epoch and partitions."""
        return self.call(describe_transactions)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the decoded records of a partition, or of all partitions of a topic.

        Raises:
            OptionError: the topic or partition does not exist, or the broker is not running.
        """
        return self.call(lambda state: decode_records(state, topic, partition))

    def create_topic(self, name: str, partitions: int = 1, **configs: str | int | bool) -> None:
        """Create a topic. Topic settings have Kafka's names with ``_`` instead of ``.``.

        Raises:
            OptionError: the name or a setting is invalid, or the topic exists.
        """
        self.call(lambda state: controls.create_topic(state, name, partitions, configs))

    def configure_topic(self, name: str, **configs: str | int | bool) -> None:
        """Change settings of a topic, which have Kafka's names with ``_`` instead of ``.``.

        Raises:
            OptionError: the topic or a setting does not exist.
        """
        self.call(lambda state: controls.configure_topic(state, name, configs))

    def counters(self) -> Counter[str]:
        """Return the broker's counters by name, such as ``recompressed_bytes`` and ``down_converted_records``."""
        return self.call(lambda state: Counter(state.counters))

    def append(
        self,
        topic: str,
        records: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch,
        *,
        partition: int = 0,
        batch_records: int = 1_000,
    ) -> int:
        """Append records without a producer. Return the offset of the first record, or -1 if there are no records.

        The records are split into batches of at most 16 KiB (``batch.size``). A larger record is a batch of its own.

        Args:
            topic: name of the topic, which is created if it does not exist.
            records: mappings with ``key`` or ``value`` (bytes or text), and optionally ``timestamp`` (milliseconds) and
                ``headers`` (a list of mappings with ``key`` and ``value``), or Arrow columns of these names. Other
                columns of ``read_records`` (``topic``, ``offset``, ...) are accepted, and their values are ignored.
            partition: partition number, from 0.
            batch_records: largest number of records in a batch.

        Raises:
            EncodeError: a column is unknown, or a value has a wrong type.
            OptionError: the partition does not exist, or the broker is not running.
            AppendRefusedError: the topic does not accept a record, such as MESSAGE_TOO_LARGE; no record is appended.
        """
        batches = build_producer_batches(records, now_ms=self._clock.now_ms, batch_records=batch_records)
        return self.call(lambda state: append_batches(state, topic, batches, partition))

    def snapshot(self) -> Snapshot:
        """Return a copy of the broker's data, for ``restore``."""
        return self.call(take_snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot: close all connections and start the broker with the snapshot's data on the same port.

        Raises:
            OptionError: the broker is not running in its own thread, or it serves a directory.
        """
        if not self._loop.is_own or self._serve:
            raise OptionError("only a broker in its own thread and without a served directory can be reset")
        self.kill()
        self._snapshot = snapshot
        self.start()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Findings about served directories, one line each: how differing copies were resolved, missing data, and
        data that cannot be read. Reads that find more damage add lines.
        """
        return tuple(remark.text for remark in self._all_remarks())

    @property
    def losses(self) -> tuple[str, ...]:
        """The lines of ``remarks`` about records that exist and are not served."""
        return tuple(remark.text for remark in self._all_remarks() if remark.severity is Severity.ERROR)

    def _all_remarks(self) -> tuple[Remark, ...]:
        return self._remarks + (() if self._state is None else find_unserved_data(self._state.logs))

    @property
    def has_journal(self) -> bool:
        """Whether requests are recorded (``journal=True``)."""
        return self._journal is not None

    @property
    def journal(self) -> Journal:
        """The journal: the last requests with their responses.

        Raises:
            OptionError: the broker was created with ``journal=False``.
        """
        if self._journal is None:
            raise OptionError("the broker has no journal, because it was created with journal=False")
        return self._journal

    def on(self, api: str | None = None, *, optional: bool = False, **conditions: Any) -> Rule:
        """Create a rule for requests: ``broker.on("Produce", topic="orders").error("NOT_LEADER_OR_FOLLOWER").once()``.

        Args:
            api: Kafka's name of the API; None matches every API.
            optional: whether a test may pass although the fault never happens. With the pytest fixtures, a test fails
                at its end if a required fault never happened.
            conditions: ``version``, ``topic``, ``partition``, ``client_id``, ``node_id``, and ``where`` (a function
                that returns whether a request matches).

        Raises:
            OptionError: the API or a condition does not exist, or the broker was created with ``journal=False``.
        """
        _ = self.journal
        return self._faults.on(api, optional=optional, **conditions)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Move the leadership of a partition to another virtual node, in a new leader epoch.

        Clients learn of the new leader from their next metadata request.

        Raises:
            OptionError: the partition or node does not exist.
        """
        self.call(lambda state: controls.move_leader(state, topic, partition, node_id))

    def move_coordinator(self, key: str, node_id: int, *, kind: str = "group") -> None:
        """Move the coordinator of a group (``kind="group"``) or transactional id (``"transaction"``) to another node.

        Raises:
            OptionError: the node or kind does not exist.
        """
        self.call(lambda state: controls.move_coordinator(state, key, node_id, kind))

    def stop_node(self, node_id: int) -> None:
        """Stop a virtual node: close its connections and its port, and elect other leaders for its partitions.

        A partition without another in-sync replica on a running node has no leader until the node is started.

        Raises:
            OptionError: the node does not exist.
        """

        def stop_in_loop(state: BrokerState) -> None:
            """Stop one node, and close its listeners. ``stop_in_loop`` runs in the event loop."""
            stop_node(state, controls.get_node(state, node_id).node_id)
            assert self._server is not None
            self._server.stop_listening(node_id)

        self.call(stop_in_loop)
        if self._loop.is_own and self._server is not None:
            self._loop.call(self._server.wait_closed())
            self._ports.hold(node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped virtual node on its former port.

        The node leads partitions again after a preferred leader election or ``move_leader``.

        Raises:
            OptionError: the node does not exist, or the broker is not running in its own thread.
        """
        if not self._loop.is_own:
            raise OptionError("call start_node from outside the broker's loop")
        node = self.call(lambda state: controls.get_node(state, node_id))
        if not node.is_up and self._server is not None:
            self._loop.call(self._ports.open(self._server, node))
            self.call(lambda state: start_node(state, node_id))

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Truncate a partition's log to ``offset``, in a new leader epoch, as after an unclean leader election.

        Raises:
            OptionError: the partition does not exist, or the offset is negative.
        """
        self.call(lambda state: controls.truncate(state, topic, partition, offset))

    def on_disk(self, effect: str | None = None, *, path: str | None = None, optional: bool = False) -> DiskRule:
        """Create a rule for disk operations: ``broker.on_disk("write", path="*.log").full(after_bytes=4096)``.

        Args:
            effect: ``write``, ``fsync``, ``open``, ``truncate``, ``rename``, ``delete``, ``make_directory`` or
                ``sync_directory``; None matches every operation.
            path: shell pattern for the whole path; None matches every path.
            optional: whether a test may pass although the fault never happens.

        Raises:
            OptionError: the operation does not exist, or the broker was created with ``journal=False``.
        """
        _ = self.journal
        return self._disk_faults.on(effect, path=path, optional=optional)

    def tear_tail(self, topic: str, partition: int, count: int) -> int:
        """Remove the last ``count`` bytes of a partition's newest segment while the broker is down.

        Return the remaining size in bytes.

        Raises:
            OptionError: the broker is running or has no ``data_dir``, or the segment has fewer bytes.
        """
        if self._server is not None or self._data_dir is None:
            raise OptionError("the broker must have a data_dir and must not run: kill() it first")
        return controls.tear_tail(self._data_dir, topic, partition, count)

    def unused_rules(self) -> list[Rule | DiskRule]:
        """Return the rules with a fault that never happened, oldest first.

        Optional rules and rules without a fault are excluded.
        """
        return [rule for rule in self.rule_history.list_unused() if isinstance(rule, Rule | DiskRule)]

    def clear_faults(self) -> None:
        """Remove all rules, both for requests and for the disk."""
        self._disk_faults.clear()
        if self._state is None:
            self._faults.clear()
        else:
            self.call(lambda state: self._faults.clear())

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock."""
        return BrokerClock(self.call, self._clock)

    def wait_for(self, condition: Callable[[], _Answer], *, timeout: float = 60.0, what: str = "") -> _Answer:
        """Call ``condition`` until its result is true, and return the result.

        Args:
            condition: function without arguments.
            timeout: longest time to wait, in seconds.
            what: description of the condition for the error message.

        Raises:
            TimeoutError: the condition is not true in time. The message lists the last requests.
        """
        deadline = time.monotonic() + timeout
        while not (answer := condition()):
            if time.monotonic() > deadline:
                journal_text = f"\n{self._journal.text()}" if self._journal is not None else ""
                raise TimeoutError(f"the condition was not true within {timeout} s: {what or condition}{journal_text}")
            time.sleep(0.005)
        return answer

    def report(self) -> str:
        """Return, as text, the clients and API versions in the journal, and the requests that Kafka 4 would reject."""
        return report_clients(self.journal)
