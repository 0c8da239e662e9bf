"""Create HTML pages of this package and their screenshots: ``python -m tests.interop.pages [TO] [--story out/story]``.

Without TO, the screenshots in ``docs/pictures`` are updated. With TO, each page is saved for review as screenshots at
both widths, light and dark, and as PDF.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from tests.interop.browser import Browser, find_chromium, open_browser

import kafkaframes

ROOT = Path(__file__).parents[2]
WIDTHS = (1280, 390)
TARGET_RELEASE = "4.0.1"
PAGE_FILES = {"story": "report.html", "log": "log.html", "traffic": "traffic.html", "audit": "audit.html"}
TOPICS = {  # topics in the backup of the log report: number of partitions, codec, records per partition
    "orders": (3, "lz4", 6_000),
    "page-views": (6, "zstd", 8_000),
    "audit": (1, "uncompressed", 8_000),
    "checkout-events": (2, "snappy", 4_000),
    "inventory": (2, "uncompressed", 2_000),
    "clickstream-legacy": (2, "gzip", 3_000),
    "mail.outbox": (1, "zstd", 3_000),
}
FORTNIGHT_MS = (1_794_182_400_000, 1_795_392_000_000)  # 9 to 23 November 2026
OVERFLOW_SCRIPT = """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > width + 1)
    .slice(0, 5).map(one => one.outerHTML.slice(0, 120));
})()"""


def make_pages(story: Path, *, flights: int | None = None) -> dict[str, Path]:
    """Return the pages of a story, which is run if necessary: its report, the report of its traffic, and an audit.

    The log report describes a backup with more topics, more codecs and damage.
    """
    if not (story / "report.html").exists():
        limit = [] if flights is None else ["--flights", str(flights)]
        _run([sys.executable, "examples/story", "--to", story, "--no-page", *limit], ROOT)
    command = [sys.executable, "-m", "kafkaframes"]
    if not (story / "backup").exists():
        make_backup(story / "backup")
    _run([*command, "report", "backup", "-o", PAGE_FILES["log"]], story)
    _run([*command, "report", "traffic.pcapng", "-o", PAGE_FILES["traffic"]], story)
    audit = [*command, "audit", "traffic.pcapng", "kafka", "--target", TARGET_RELEASE, "-o", PAGE_FILES["audit"]]
    _run(audit, story, status=4)  # the target release rejects the old clients
    return {name: story / file for name, file in PAGE_FILES.items()}


def make_backup(folder: Path) -> None:
    """Write a log directory with two weeks of records, the same in each call, and damage two of its batches."""
    chance = random.Random(7)
    with kafkaframes.Broker(data_dir=folder) as broker:
        for topic, (partitions, codec, count) in TOPICS.items():
            broker.create_topic(topic, partitions, compression_type=codec, retention_ms=-1)
            for partition in range(partitions):
                times = sorted(int(chance.triangular(*FORTNIGHT_MS)) for _ in range(count))
                records = [_event(chance, topic, time) for time in times]
                broker.append(topic, records, partition=partition, batch_records=50)
    for partition in ("orders-1", "checkout-events-0"):
        segment = min((folder / partition).glob("*.log"))
        content = bytearray(segment.read_bytes())
        content[-1] ^= 1
        segment.write_bytes(content)


def _event(chance: random.Random, topic: str, timestamp_ms: int) -> dict[str, object]:
    customer = chance.randrange(2_000)
    value = {
        "customer": customer,
        "event": topic,
        "amount": chance.randrange(10_000) / 100,
        "id": chance.randrange(1 << 40),
    }
    return {"key": f"customer-{customer}", "value": json.dumps(value), "timestamp": timestamp_ms}


def _run(words: list[str | Path], folder: Path, *, status: int = 0) -> None:
    process = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    if process.returncode != status:
        raise RuntimeError(f"{words}: status {process.returncode}\n{process.stdout[-2000:]}{process.stderr[-2000:]}")


def _take_pictures(browser: Browser, pages: dict[str, Path], to: Path) -> None:
    for name, page in pages.items():
        for width in WIDTHS:
            for theme in ("light", "dark"):
                browser.open(page.as_uri(), width=width, dark=theme == "dark")
                browser.take_picture(to / f"{name}-{width}-{theme}.png")
        browser.open(page.as_uri(), width=WIDTHS[0])
        browser.print_pdf(to / f"{name}.pdf")


def main() -> None:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", type=Path, nargs="?", help="a folder for pictures of all pages")
    parser.add_argument("--story", type=Path, default=ROOT / "out" / "story", help="the output folder of make run")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("Chromium is not on the PATH (Debian: chromium)")
    pages = make_pages(options.story.absolute())
    with open_browser(chromium) as browser:
        if options.to is not None:
            options.to.mkdir(parents=True, exist_ok=True)
            _take_pictures(browser, pages, options.to)
            return
        for name, page in pages.items():
            browser.open(page.as_uri(), width=WIDTHS[0])
            browser.take_picture(ROOT / "docs" / "pictures" / f"{name}.png", height=1220 if name == "log" else 1000)


if __name__ == "__main__":
    main()
