"""The page: complete, offline, the same bytes each time, and no name can break its markup."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from kafkaframes.jobs.report.model import KeyReport, PartitionReport, SizeReport, UnreadFile
from kafkaframes.jobs.report.page import build_report_page

from .conftest import HOSTILE, rows, write_segment

VOID = {"meta", "input", "wbr"}


class Outline(HTMLParser):
    """Checks that elements nest; collects the text, the ids, and the elements that malicious names would create."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tags, self.text = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        assert not any(name.startswith("on") or name == "src" for name, _ in attributes)
        assert all(value.startswith("#") for name, value in attributes if name == "href")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in ("rect", "path", "line")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def outline(page):
    outline_parser = Outline()
    outline_parser.feed(page)
    outline_parser.close()
    assert not outline_parser.open
    assert len(outline_parser.ids) == len(set(outline_parser.ids))
    return outline_parser


def embedded_json(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_is_complete_and_needs_no_network(cluster, report_of):
    report = report_of(cluster)
    page = build_report_page(report)
    page_outline = outline(page)
    assert not page_outline.tags & {"link", "img", "iframe", "object", "base"}
    assert not re.search(r"https?://|@import|url\(", page)
    text = " ".join(page_outline.text)
    for text_expected in (
        str(cluster),
        "0.0",
        "broker-1",
        "orders",
        "Kafka 4 writes only v2",
        "1 partition",
        "that the broker was deleting",
    ):
        assert text_expected in text, text_expected
    assert {"size", "times", "compression", "transactions", "keys", "copies", "damage", "topics"} <= set(
        page_outline.ids
    )
    data = embedded_json(page)
    assert data["paths"] == report.paths
    assert sum(one["records"] for one in data["topics"]) == report.total("records")


def test_malicious_names_are_shown_as_text(cluster, report_of):
    page = build_report_page(report_of(cluster))
    page_outline = outline(page)
    assert not page_outline.tags & {"img", "b x"}
    assert HOSTILE.replace("/", "") in "".join(page_outline.text)
    assert "<img" not in page


@pytest.mark.parametrize("name", ["</script><script>x", "\udcff\u202e\x00\n", "=" * 249, "a b\tc", "&lt;"])
def test_any_directory_name_gives_a_page(tmp_path, report_of, name):
    report = report_of(write_segment(tmp_path / "t-0", b"").parent)
    report.topics[0].name = name
    report.paths = [name]
    report.not_read = [UnreadFile(name, name)]
    page = build_report_page(report)
    page.encode()
    outline(page)
    assert embedded_json(page)["paths"]


def test_the_same_log_gives_the_same_bytes(cluster, report_of):
    one, other = build_report_page(report_of(cluster)), build_report_page(report_of(cluster))
    assert one == other


def test_a_log_without_records_is_reported_as_empty(tmp_path, report_of):
    write_segment(tmp_path / "nothing-0", b"")
    page = build_report_page(report_of(tmp_path))
    outline(page)
    for text_expected in (
        "All topics are empty",
        "No record has a timestamp",
        "The log has no batches",
        "No batch belongs",
    ):
        assert text_expected in page


def test_a_thousand_topics_fit(cluster, report_of):
    report = report_of(cluster)
    pattern = next(topic for topic in report.topics if topic.name == "orders")
    activity = [number * 37 % 91 for number in range(len(report.times.counts))]
    sizes = SizeReport(9, 9, 9, 9, 9, 9, 9, [(1 << n, 2 << n, n) for n in range(20)])
    keys = KeyReport("cleanup.policy", 1000, 0, 100, 0.0, 5)
    report.topics = [
        replace(pattern, name=f"team-{number % 40}.some-service.events-{number}", activity=activity,
                record_sizes=sizes, keys=keys)
        for number in range(1000)
    ]  # fmt: skip
    partition = report.partitions[0]
    assert isinstance(partition, PartitionReport)
    report.partitions = [replace(partition, partition=number) for number in range(20_000)]
    report.copies = report.copies * 5000
    report.findings = report.findings * 5000
    page = build_report_page(report)
    outline(page)
    assert len(page.encode()) < 2_000_000
    assert "985 other topics" in page
    assert "events-999" in page
    assert embedded_json(page)["left_out"]["partitions"] == 19_800


def test_rows_of_the_conftest_have_the_stated_values():
    assert [row["offset"] for row in rows(3, first=5)] == [5, 6, 7]
