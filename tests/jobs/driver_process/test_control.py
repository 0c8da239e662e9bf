"""Processes on the driver's machine: their folder, their locks, and the time limits of requests."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process import control, serving


@pytest.fixture
def top(monkeypatch, tmp_path_factory):
    import tempfile

    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(control.tempfile, "gettempdir", lambda: short)
        yield Path(short)


def test_a_folder_that_other_users_can_enter_is_skipped(top):
    first = control.make_socket_path("a").parent
    assert first.name == f"kafkaframes-{os.getuid()}"
    assert first.stat().st_mode & 0o777 == 0o700
    first.chmod(0o755)  # like one that another user has created before
    second = control.make_socket_path("a").parent
    assert (second, control.make_socket_path("a")) == (top / f"{first.name}-1", control.make_socket_path("a"))
    second.rmdir()
    second.symlink_to(top)  # not followed
    third = control.make_socket_path("a").parent
    assert third == top / f"{first.name}-2"
    third.rmdir()
    third.write_text("a file")
    assert control.make_socket_path("a").parent == top / f"{first.name}-3"


def test_no_usable_folder_is_an_error_that_names_them(top):
    for n in range(10):
        (top / (f"kafkaframes-{os.getuid()}" + (f"-{n}" if n else ""))).mkdir(mode=0o755)
    with pytest.raises(KafkaframesError, match=r"none of .*kafkaframes-\d+ to .*-9 is a directory that only user"):
        control.make_socket_path("a")


@pytest.mark.parametrize("length", [60, 61])
def test_a_temporary_directory_with_a_long_path_is_an_error_that_names_tmpdir(monkeypatch, tmp_path, length):
    uid = len(str(os.getuid()))
    fits = control._MAX_SOCKET_PATH_BYTES - len("/kafkaframes--9/") - uid - control._SOCKET_NAME_LENGTH
    name = "/" + "x" * (fits - 1 + (length - 60))
    monkeypatch.setattr(control.tempfile, "gettempdir", lambda: name)
    message = (
        "cannot be created" if length == 60 else r"TMPDIR=/x+ is too long: .* would have 104 bytes, the limit is 103"
    )
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(KafkaframesError, match=message):
        control.make_socket_path("a")


def refuse(*_, **__):
    raise PermissionError("refused")


def test_a_lock_that_is_never_released_is_an_error_that_names_its_process(top, monkeypatch):
    path = control.make_socket_path("a")
    monkeypatch.setattr(control, "LOCK_TIMEOUT_S", 0.2)
    with (
        control.hold_lock(path),
        pytest.raises(
            KafkaframesError, match=rf"process {os.getpid()} has held the lock {control.make_lock_path(path)}"
        ),
        control.hold_lock(path),
    ):
        pass
    with control.hold_lock(path) as is_acquired:
        assert is_acquired


class SlowHandler:
    """Answers after a delay."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.has_ended = threading.Event()

    def handle_request(self, request):
        time.sleep(self.seconds)
        self.seconds = 0
        if request.get("fails"):
            raise OSError("disk full")
        return {"echo": request["text"]}

    def should_exit(self):
        return False

    def close(self):
        self.has_ended.set()


def test_a_slow_process_is_waited_for_and_errors_are_returned(top, monkeypatch):
    monkeypatch.setattr(serving, "CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(control, "HEARTBEAT_INTERVAL_S", 0.05)
    path, ready, answering = control.make_socket_path("slow"), threading.Event(), SlowHandler(2.2)
    with ThreadPoolExecutor() as pool:
        serving_thread = pool.submit(serving.serve, path, answering, ready.set)
        assert ready.wait(60)
        monkeypatch.setattr(control, "MAX_SILENCE_S", 2.0)
        assert control.send_request(path, {"text": "x"}) == {"echo": "x"}
        with pytest.raises(KafkaframesError, match="disk full"):
            control.send_request(path, {"fails": True})
        with pytest.raises(KafkaframesError, match="unknown or invalid request"):
            control.send_request(path, {})
        path.unlink()
        serving_thread.result(60)
        assert answering.has_ended.is_set()
