"""The Python blocks of the client's guide pages run and print the shown output."""

import contextlib
import io

import pytest
from tests.doc_blocks import DOCS, blocks_with_output

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security

PAGE_ADDRESS = "localhost:9092"  # the broker's address as written on the pages
BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 50,
    "super.users": "User:ANONYMOUS",
}
GUIDE_PAGES = [
    "client.md",
    "client-asyncio.md",
    "client-errors.md",
    "client-partitions.md",
    "client-producing.md",
    "client-groups.md",
    "client-share-groups.md",
    "client-connections.md",
    "client-interceptors.md",
    "admin.md",
    "admin-access.md",
    "clients.md",
]


@pytest.mark.parametrize("page", GUIDE_PAGES)
def test_blocks_of_a_guide_page_print_the_output_that_follows_them(page):
    blocks = blocks_with_output(DOCS / page)
    assert blocks
    names = {}
    with Broker(config=BROKER_CONFIG, security=Security(authorizer=True)) as broker:
        for number, (code, expected_output) in enumerate(blocks):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                source = code.replace(PAGE_ADDRESS, broker.bootstrap_servers)
                exec(compile(source, f"{page}, block {number}", "exec"), names)
            assert expected_output is None or output.getvalue() == expected_output, code
