"""The Python blocks of the client's guide pages run, and print what the pages show."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security

DOCS = Path(__file__).parents[1] / "docs"
ADDRESS = "localhost:9092"  # the broker's address on the pages
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 50,
    "super.users": "User:ANONYMOUS",
}
PAGES = [
    "client.md",
    "client-producing.md",
    "client-groups.md",
    "client-share-groups.md",
    "client-connections.md",
    "client-interceptors.md",
    "admin.md",
    "clients.md",
]


def blocks_of(page):
    """Return the Python blocks of a page, each with the output that follows it or None."""
    return [(match[1], match[2]) for match in _BLOCK.finditer((DOCS / page).read_text())]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_guide_page_print_the_output_that_follows_them(page):
    blocks = blocks_of(page)
    assert blocks
    names = {}
    with Broker(config=CONFIG, security=Security(authorizer=True)) as broker:
        for number, (code, expected) in enumerate(blocks):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                source = code.replace(ADDRESS, broker.bootstrap_servers)
                exec(compile(source, f"{page}, block {number}", "exec"), names)
            assert expected is None or output.getvalue() == expected, code
