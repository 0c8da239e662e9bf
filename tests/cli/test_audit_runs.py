"""``audit``: verdicts over captures, request logs and logs on a disk, as text, JSON and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.calling import ask

DATA = Path(__file__).parent.parent / "data"


CAPTURES, LOGS = DATA / "captures", DATA / "request-logs"


def test_the_old_logs_tell_removed_versions_with_guesses():
    result = ask("audit", LOGS / "broker-3.9.1-info-old-clients.log.gz", "--target", "4.0.1")
    assert re.search(r"^removed +billing-v09 .*\(Produce 1\)$", result.output, re.MULTILINE)
    assert "one at level INFO has deprecated calls only" in result.output


def test_a_page_that_escapes_what_clients_say(tmp_path):
    out = tmp_path / "audit.html"
    result = ask("audit", CAPTURES / "sasl-raw-tokens-broker39.pcap.gz", "--target", "4.3", "-o", out)
    text = out.read_text()
    assert result.exit_code == 4
    assert "kp-147-as-0.10.0" in text
    assert "<script" not in text.split("</style>")[1]
    assert "alice-secret" not in text


def test_logs_on_disk_are_judged_by_their_formats():
    from kafkaframes.errors import KafkaframesError

    case = next(path for path in sorted((DATA / "logs").iterdir()) if path.is_dir())
    result = ask("audit", case, "--target", "4.0.1", "--json", "-v")
    assert not isinstance(result.exception, KafkaframesError)
    assert json.loads(result.stdout)["disk"]
