"""Ctrl-C for commands that wait: one line and a shell's exit status, or a clean stop if documented."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import LATEST, Admin, NewTopic, Producer, TopicPartition

EXAMPLES = Path(__file__).parents[1] / "data" / "logs" / "zk-0102-v1"
COMMAND = "from kafkaframes.cli.main import main; main()"
LINES_PER_READ = 10_000  # number of lines that ``produce`` sends before it reads more


@pytest.fixture(scope="module")
def bootstrap():
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=1) for name in ("t", "lines")])
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"there").result()
        yield broker.bootstrap_servers


# On a busy machine, a command can take a long time to start, so each test waits for the command's first effect.


def read_error_line(process, out, servers):
    return process.stderr.readline()


def read_output_line(process, out, servers):
    assert process.stdout.readline()
    return ""


def has_sent(process, out, servers):
    process.stdin.write("line\n" * LINES_PER_READ)
    process.stdin.flush()
    place = TopicPartition("lines", 0)
    with Admin(servers) as admin:
        while process.poll() is None and admin.list_offsets({place: LATEST})[place] < LINES_PER_READ:
            time.sleep(0.05)
    return ""


def has_copied(process, out, servers):
    while process.poll() is None and not (out / "copy" / "t-0").is_dir():
        time.sleep(0.05)
    return ""


RECORD = "record --listen 127.0.0.1:0 --upstream {servers} -o {out}/trace.pcapng"
# command -> its arguments, the awaited effect, its exit status, and its last line on standard error
WAITING_COMMANDS = {
    "consume": ("consume t -b {servers}", read_output_line, 130, "kafkaframes: interrupted"),
    "produce": ("produce lines -b {servers}", has_sent, 130, "kafkaframes: interrupted"),
    "record": (RECORD, read_error_line, 0, "{out}/trace.pcapng: 0 connections, 0 B recorded"),
    "grep": ("grep SKU-7984 {log} --follow", read_output_line, 130, "kafkaframes: interrupted"),
    "broker": ("broker --port 0", read_error_line, 0, "stopping"),
    "mirror": ("mirror --from {servers} --to {out}/copy --follow", has_copied, 0, ""),
}


@pytest.fixture(scope="module")
def stopped_commands(bootstrap, tmp_path_factory):
    """Start all commands, wait until they work, and send Ctrl-C. Return (status, lines of stderr) by name."""
    processes, outs = {}, {}
    pipe = subprocess.PIPE
    for name, (words, *_) in WAITING_COMMANDS.items():
        out = outs[name] = tmp_path_factory.mktemp(name)
        arguments = words.format(servers=bootstrap, out=out, log=EXAMPLES).split()
        processes[name] = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        lines = {}
        for name, process in processes.items():
            lines[name] = WAITING_COMMANDS[name][1](process, outs[name], bootstrap)
            assert process.poll() is None, lines[name] + process.stderr.read()
            os.killpg(process.pid, signal.SIGINT)
        for name, process in processes.items():
            lines[name] += process.communicate(timeout=100)[1]
        texts = {name: lines[name].replace(str(outs[name]), "{out}") for name in processes}
        return {name: (processes[name].returncode, texts[name].splitlines()) for name in processes}
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("name", WAITING_COMMANDS)
def test_ctrl_c_stops_a_waiting_command(stopped_commands, name):
    _, _, expected_status, line = WAITING_COMMANDS[name]
    status, lines = stopped_commands[name]
    assert (status, lines[-1] if lines else "") == (expected_status, line)
    assert not [line for line in lines if "Traceback" in line]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_running_recording_is_written_to_the_disk(bootstrap, tmp_path, number, status):
    """Previously, it kept 8 MiB in memory, so that ``kill -9`` lost all traffic of a quiet cluster."""
    trace, pipe = tmp_path / "trace.pcapng", subprocess.PIPE
    arguments = RECORD.format(servers=bootstrap, out=tmp_path).split()
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stderr=pipe, text=True)
    try:
        address = process.stderr.readline().split()[2]
        with Admin(address) as admin:
            topics = admin.list_topics()
        deadline = time.monotonic() + 100
        while "Metadata" not in _apis_of(trace) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        lines = process.communicate(timeout=100)[1].splitlines()
    finally:
        process.kill()
        process.communicate()
    assert topics
    assert "Metadata" in _apis_of(trace)
    assert process.returncode == status
    assert lines[-1].startswith(f"{trace}: 1 connection, ") if lines else number == signal.SIGKILL, lines


def _apis_of(trace):
    if trace.stat().st_size == 0:
        return []
    return kafkaframes.read_capture(trace, columns=["apiName"]).read_all().column(0).to_pylist()
