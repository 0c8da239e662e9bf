"""Ctrl-C at commands that wait for others: one line and the status of a shell, or a clean stop where that is said."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic

EXAMPLES = Path(__file__).parents[1] / "data" / "logs" / "zk-0102-v1"
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
COMMAND = "from kafkaframes.cli.main import main; main()"


@pytest.fixture(scope="module")
def bootstrap():
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=1)])
        yield broker.bootstrap_servers


def wait_until_it_waits(process):
    """Return when the main thread has slept for a second, after it has worked; or has ended, or 100 s are over."""
    slept = 0
    for _ in range(1000):
        if process.poll() is not None or slept >= 10:
            return
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        worked = (int(fields[11]) + int(fields[12])) * TICK_SECONDS > 0.05
        slept = slept + 1 if worked and fields[0] == "S" else 0
        time.sleep(0.1)


def wait_until_it_stops_cleanly(name, process, out):
    """Return what a command has said once Ctrl-C is a clean stop to it: then it says so, or has begun its work.

    Until then it is interrupted like any other, and on a busy machine a process that starts may sleep for a second.
    """
    if name == "broker":
        return process.stderr.readline()
    while name == "mirror" and process.poll() is None and not (out / "copy" / "t-0").is_dir():
        time.sleep(0.05)
    return ""


# command -> its arguments, its exit status, and its last line on standard error
WAITING = {
    "consume": ("consume t -b {servers}", 130, "kafkaframes: interrupted"),
    "produce": ("produce t -b {servers}", 130, "kafkaframes: interrupted"),
    "record": (
        "record --listen 127.0.0.1:0 --upstream {servers} -o {out}/trace.pcapng", 130, "kafkaframes: interrupted",
    ),
    "grep": ("grep a {log} --follow", 130, "kafkaframes: interrupted"),
    "broker": ("broker --port 0", 0, "stopping"),
    "mirror": ("mirror --from {servers} --to {out}/copy --follow", 0, ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def stopped(bootstrap, tmp_path_factory):
    """Start every command, wait until each waits for others, and send Ctrl-C: name -> status, lines on stderr."""
    started, outs = {}, {}
    for name, (words, *_) in WAITING.items():
        out = outs[name] = tmp_path_factory.mktemp(name)
        given = words.format(servers=bootstrap, out=out, log=EXAMPLES).split()
        started[name] = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *given],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        said = {}
        for name, process in started.items():
            said[name] = wait_until_it_stops_cleanly(name, process, outs[name])
            wait_until_it_waits(process)
            assert process.poll() is None, said[name] + process.stderr.read()
            os.killpg(process.pid, signal.SIGINT)
        for name, process in started.items():
            said[name] += process.communicate(timeout=60)[1]
        return {name: (started[name].returncode, said[name].splitlines()) for name in started}
    finally:
        for process in started.values():
            process.kill()


@pytest.mark.parametrize("name", WAITING)
def test_a_command_that_waits_is_stopped_by_ctrl_c(stopped, name):
    _, wanted, line = WAITING[name]
    status, lines = stopped[name]
    assert (status, lines[-1] if lines else "") == (wanted, line)
    assert not [one for one in lines if "Traceback" in one]
