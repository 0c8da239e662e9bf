"""A killed mirror is resumed. A mirror with follow copies new records until it is stopped."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from tests.jobs.mirror.worlds import WAIT_S, fill, logs_of, rows_of, run_mirror, table
from tests.waiting import wait_for

from kafkaframes import build_records
from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import Admin, AsyncAdmin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import CorruptRecordError, NetworkError, OptionError
from kafkaframes.jobs.mirror import job as mirror_job
from kafkaframes.jobs.mirror.job import mirror_clusters
from kafkaframes.jobs.mirror.settings import MirrorSettings


def command(source, target, *options: str) -> list[str]:
    arguments = ["mirror", "--from", str(source), "--to", str(target), "--timeout", str(WAIT_S), *options]
    return [sys.executable, "-m", "kafkaframes", *arguments]


@contextmanager
def running(arguments: list[str], **options):
    """Run a command, which is always stopped at the end."""
    job = subprocess.Popen(arguments, **options)
    try:
        yield job
    finally:
        job.kill()
        job.communicate(timeout=WAIT_S)


def many_batches(servers: str) -> None:
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name="many", num_partitions=2, configs={"segment.bytes": "3000"})])
    with Producer(servers, batch_size=300, transactional_id="t") as producer:
        for number in range(3):
            producer.begin_transaction()
            producer.send_arrow(table(400, start=number * 400), topic="many")
            (producer.abort_transaction if number == 1 else producer.commit_transaction)()


@pytest.mark.parametrize("options", [(), ("--offsets", "reassign", "--state")], ids=["keep", "reassign"])
def test_a_mirror_to_a_broker_resumes_after_a_kill(tmp_path, options):
    options = (*options, str(tmp_path / "state")) if options else ()
    with Broker() as a, Broker() as b:
        many_batches(a.bootstrap_servers)
        held_requests = b.on("Produce", topic="many", partition=0).after(3).ignore()
        with running(command(a.bootstrap_servers, b.bootstrap_servers, *options), stderr=subprocess.DEVNULL):
            wait_for(lambda: held_requests.count > 3)
        held_requests.remove()
        process = subprocess.run(
            command(a.bootstrap_servers, b.bootstrap_servers, "--json", *options),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert process.returncode == 0, process.stderr
        report = json.loads(process.stdout)
        assert any(one["resumed"] and one["from_offset"] > 0 for one in report["partitions"])
        assert "many-0: resumed at offset " in process.stderr
        before, after = (
            {number: [row[1:] for row in rows] for number, rows in rows_of(one.bootstrap_servers, "many").items()}
            for one in (a, b)
        )
        assert before == after


def test_a_mirror_to_a_directory_resumes_after_a_kill(tmp_path):
    with Broker(data_dir=tmp_path / "a") as a:
        many_batches(a.bootstrap_servers)
        held_requests = a.on("Fetch").after(10).ignore()
        settings = ("--from-property", "max.partition.fetch.bytes=1000")
        with running(command(a.bootstrap_servers, tmp_path / "b", *settings), stderr=subprocess.DEVNULL):
            wait_for(lambda: any(path.stat().st_size for path in (tmp_path / "b").glob("many-*/*.log")))
        held_requests.remove()
        again = CliRunner().invoke(cli, command(a.bootstrap_servers, tmp_path / "b")[3:])
        assert again.exit_code == 0, again.output
        assert "resumed at" in again.output
        assert logs_of(tmp_path / "b") == logs_of(tmp_path / "a")


def test_follow_copies_new_records_topics_and_commits_until_stopped(tmp_path):
    with Broker() as a, Broker() as b:
        fill(a)
        arguments = command(a.bootstrap_servers, b.bootstrap_servers, "--follow", "--topic", "p*")
        with running(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            wait_for(lambda: "plain" in b.topics and count_of(b, "plain") == 500)
            with Producer(a.bootstrap_servers) as producer:
                producer.send_arrow(table(20), topic="plain")
            wait_for(lambda: count_of(b, "plain") == 520)
            job.send_signal(signal.SIGTERM)
            output, _ = job.communicate(timeout=WAIT_S)
        assert job.returncode == 0
        assert "520 records read, 520 written" in output


def test_follow_can_be_stopped_while_the_source_does_not_respond(monkeypatch):
    """strimzi/strimzi-kafka-operator#5533, linkedin/brooklin#675: a cluster is unavailable for a long time."""
    monkeypatch.setattr(mirror_job, "_STOP_TIMEOUT_S", 0.5)

    async def stop_after_the_source(source: Broker, target: Broker) -> None:
        stop = asyncio.Event()
        settings = MirrorSettings(follow=True, group_interval_s=0.1, topic_interval_s=0.1, timeout_s=WAIT_S)
        mirror = asyncio.ensure_future(
            mirror_clusters(source.bootstrap_servers, target.bootstrap_servers, settings, stop=stop)
        )
        while "t" not in target.topics or not count_of(target, "t"):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(source.stop)
        await asyncio.sleep(0.3)
        stop.set()
        with pytest.raises(NetworkError, match=r"was stopped, but a cluster has not responded for .* run the command"):
            await asyncio.wait_for(mirror, WAIT_S / 4)

    with Broker() as a, Broker() as b:
        a.append("t", [{"value": b"v"}])
        asyncio.run(stop_after_the_source(a, b))


def test_a_deleted_source_topic_is_reported_once():
    lines: list[str] = []

    async def delete_while_following(source: Broker, target: Broker) -> None:
        stop = asyncio.Event()
        settings = MirrorSettings(follow=True, group_interval_s=0.1, topic_interval_s=0.1, timeout_s=WAIT_S)
        servers = source.bootstrap_servers, target.bootstrap_servers
        mirror = asyncio.ensure_future(mirror_clusters(*servers, settings, stop=stop, print_message=lines.append))
        while "t" not in target.topics or not count_of(target, "t"):
            await asyncio.sleep(0.05)
        async with AsyncAdmin(source.bootstrap_servers) as admin:
            await admin.delete_topics(["t"])
        while not lines:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        stop.set()
        await asyncio.wait_for(mirror, WAIT_S)

    with Broker() as a, Broker() as b:
        a.append("t", [{"value": b"v"}])
        a.append("other", [{"value": b"v"}])
        asyncio.run(delete_while_following(a, b))
        assert count_of(b, "t") == 1
    assert lines == ["t: the source no longer has this topic, or the user may no longer describe it; its copy stays"]


def count_of(broker: Broker, topic: str) -> int:
    return sum(broker.topics[topic].end_offsets)


def test_new_topics_and_commits_are_copied_in_their_intervals():
    place = TopicPartition("later", 0)
    with Broker() as a, Broker() as b:
        fill(a)
        results = {}

        async def follow() -> None:
            stop = asyncio.Event()
            settings = MirrorSettings(follow=True, group_interval_s=0.1, topic_interval_s=0.1, timeout_s=WAIT_S)
            job = asyncio.ensure_future(mirror_clusters(a.bootstrap_servers, b.bootstrap_servers, settings, stop=stop))
            while not is_done.is_set() and not job.done():
                await asyncio.sleep(0.05)
            stop.set()
            results["report"] = await job

        is_done = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(follow()))
        thread.start()
        try:
            with Producer(a.bootstrap_servers) as producer, Admin(a.bootstrap_servers) as source:
                producer.send_arrow(table(9), topic="later")
                wait_for(lambda: "later" in b.topics and rows_of(b.bootstrap_servers, "later"))
                source.alter_group_offsets("g", {place: 7})
            with Admin(b.bootstrap_servers) as target:
                wait_for(lambda: target.group_offsets("g").get(place, (0,))[0] == 7)
        finally:
            is_done.set()
            thread.join(WAIT_S)
    assert "later" in results["report"].created


def test_an_unreachable_source_leaves_no_output(tmp_path):
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        source = f"127.0.0.1:{refusing.getsockname()[1]}"
        with pytest.raises(NetworkError, match="cannot be reached"):
            run_mirror(source, tmp_path / "copy", timeout_s=0)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_topic_of_the_source_leaves_no_output(tmp_path):
    with Broker() as broker, pytest.raises(OptionError, match="nowhere"):
        run_mirror(broker.bootstrap_servers, tmp_path / "copy", topics=("nowhere",))
    assert list(tmp_path.iterdir()) == []


def write_damaged_log(tmp_path, change):
    """Write a log directory with a partition of two segments of two batches. ``change`` alters the list of the batches.

    The directory has indexes and a clean shutdown marker, so that no recovery reads the batches.
    """
    raws = [bytearray(build_records({"value": [b"%d" % number], "timestamp": [1]})) for number in range(4)]
    for offset, raw in enumerate(raws):
        raw[:8] = offset.to_bytes(8, "big")
    change(raws)
    partition = tmp_path / "log" / "t-0"
    partition.mkdir(parents=True)
    for base in (0, 2):
        (partition / f"{base:020}.log").write_bytes(b"".join(raws[base : base + 2]))
        (partition / f"{base:020}.index").touch()
        (partition / f"{base:020}.timeindex").touch()
    (tmp_path / "log" / ".kafka_cleanshutdown").touch()
    return tmp_path / "log"


def test_unreadable_parts_of_a_directory_are_reported_and_the_rest_is_copied(tmp_path):
    lost_batches = []

    def cut(raws):
        raws[3][8:12] = b"\xff" * 4
        lost_batches.append(len(raws[3]))

    source = write_damaged_log(tmp_path, cut)
    result = CliRunner().invoke(cli, ["mirror", "--from", str(source), "--to", str(tmp_path / "copy")])
    assert result.exit_code == 1
    assert f"error: t-0: {lost_batches[0]} bytes are not served, from byte {lost_batches[0]} of" in result.stdout
    assert "t-0: copied offsets 0 to 3" in result.stdout


@pytest.mark.parametrize("offset", [0, 2**63 - 1], ids=["one that was there", "the largest"])
def test_decreasing_offsets_are_reported(tmp_path, offset):
    def back(raws):
        raws[1][:8] = offset.to_bytes(8, "big")

    with pytest.raises(CorruptRecordError, match=r"(follows one that ends|ends with offset)"):
        run_mirror(write_damaged_log(tmp_path, back), tmp_path / "copy")


def test_a_fetch_without_progress_is_an_error_and_is_not_repeated(tmp_path):
    def back(raws):
        raws[1][:8] = (-5).to_bytes(8, "big", signed=True)

    with Broker(serve=write_damaged_log(tmp_path, back)) as broker, Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition("t", 0): 0})
        with pytest.raises(CorruptRecordError, match="ends with offset -5"):
            consumer.poll(30_000)


def test_a_segment_with_an_early_end_for_readers_is_reported(tmp_path):
    """For a broker, a size beyond the end of the file ends the segment: later batches would be lost silently."""
    whole = []

    def cut(raws):
        whole.append(len(raws[0]))
        raws[1][8:12] = (1 << 20).to_bytes(4, "big")

    source = write_damaged_log(tmp_path, cut)
    report = run_mirror(source, tmp_path / "copy")
    assert [partition.records_written for partition in report.partitions] == [3]
    (line,) = report.not_read
    assert f"{0:020}.log cannot be read from byte {whole[0]} on" in line


def test_an_unknown_format_is_named(tmp_path):
    def change(raws):
        raws[0][16] = 9

    with pytest.raises(CorruptRecordError, match="the magic of a batch is not 0, 1 or 2, at offset 0"):
        run_mirror(write_damaged_log(tmp_path, change), tmp_path / "copy")
