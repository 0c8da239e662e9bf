"""The entry point: errors of the machine are one line, and the help names every command."""

import signal

import pytest


def test_an_error_of_the_machine_is_one_line(tmp_path, monkeypatch, capsys):
    from kafkaframes.cli import main as module

    def fail():
        raise OSError(5, "Input/output error", "/dev/broken")

    monkeypatch.setattr(module, "cli", fail)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            module.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kafkaframes: Input/output error (at /dev/broken)\n"
