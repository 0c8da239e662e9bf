"""``audit``: verdicts over captures, request logs and logs on a disk, as text, JSON and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.calling import ask

import kafkaframes

DATA = Path(__file__).parent.parent / "data"


CAPTURES, LOGS = DATA / "captures", DATA / "request-logs"


def test_old_request_logs_show_removed_versions_and_guessed_clients():
    result = ask("audit", LOGS / "broker-3.9.1-info-old-clients.log.gz", "--target", "4.0.1")
    assert re.search(r"^removed +billing-v09 .*\(Produce 1\)$", result.output, re.MULTILINE)
    assert "a request log at level INFO only has deprecated calls" in result.output


def test_a_page_escapes_texts_of_clients(tmp_path):
    out = tmp_path / "audit.html"
    result = ask("audit", CAPTURES / "sasl-raw-tokens-broker39.pcap.gz", "--target", "4.3", "-o", out)
    text = out.read_text()
    assert result.exit_code == 4
    assert "kp-147-as-0.10.0" in text
    assert "<script" not in text.split("</style>")[1]
    assert "alice-secret" not in text


def test_logs_on_disk_are_audited_by_their_formats():
    from kafkaframes.errors import KafkaframesError

    case = next(path for path in sorted((DATA / "logs").iterdir()) if path.is_dir())
    result = ask("audit", case, "--target", "4.0.1", "--json", "-v")
    assert not isinstance(result.exception, KafkaframesError)
    assert json.loads(result.stdout)["disk"]


def test_a_page_shows_badges_and_the_times_of_requests_and_records(tmp_path):
    out = tmp_path / "audit.html"
    ask(
        "audit",
        CAPTURES / "sasl-raw-tokens-broker39.pcap.gz",
        DATA / "examples/kafka-4.3",
        "--target",
        "4.3",
        "-o",
        out,
    )
    clients, disk = out.read_text().split('id="disk"')
    (row,) = re.findall(r'<tr class="client">(?:(?!</tr>).)*kp-147-as-0\.10\.0.*?</tr>', clients, re.DOTALL)
    assert 'class="badge bad"' in row
    assert len(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row)) == 2
    rows = re.findall(r"<tr><td.*?</tr>", disk, re.DOTALL)
    assert rows
    assert all('class="badge' in text for text in rows)
    assert all(len(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text)) == 2 for text in rows)


def test_record_times_on_disk_omit_batches_without_timestamps(tmp_path):
    for topic, record_format in {"old": 0, "new": 2}.items():
        (tmp_path / f"{topic}-0").mkdir()
        records = [{"value": b"v", "timestamp": 1_700_000_000_000 + second * 1000} for second in range(3)]
        segment = kafkaframes.build_records(records, record_format=record_format, batch_records=1)
        (tmp_path / f"{topic}-0" / "00000000000000000000.log").write_bytes(segment)
    result = ask("audit", tmp_path, "--target", "4.0.1", "--json", "-v")
    times = {entry["topic"]: (entry["first"], entry["last"]) for entry in json.loads(result.stdout)["disk"]}
    assert times == {"old": (None, None), "new": ("2023-11-14 22:13:20", "2023-11-14 22:13:22")}
