"""The command ``kafkaframes redact``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kafkaframes.capture.reader import read_capture
from kafkaframes.cli.record import redact as command
from kafkaframes.errors import OptionError

DATA = Path(__file__).parent.parent / "data" / "captures"


def test_the_command_does_not_overwrite_a_file(tmp_path):
    out = tmp_path / "x.pcapng"
    path = str(DATA / "share-groups-broker43.pcap.zst")
    assert CliRunner().invoke(command, [path, "-o", str(out), "--keep-client-ids"]).exit_code == 0
    assert {row["clientId"] for row in read_capture(str(out)).read_all().to_pylist()} == {
        row["clientId"] for row in read_capture(path).read_all().to_pylist()
    }
    assert isinstance(CliRunner().invoke(command, [path, "-o", str(out)]).exception, OptionError)
