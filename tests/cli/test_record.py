"""The options of ``kafkaframes record``: addresses and ranges of ports."""

from __future__ import annotations

import pytest

from kafkaframes.cli.record import _is_loopback, _parse_listen_address, _parse_upstream
from kafkaframes.errors import OptionError


@pytest.mark.parametrize("text", [":x", ":9093-9092", ":0-99999"])
def test_options_that_make_no_sense(text):
    with pytest.raises(OptionError):
        _parse_listen_address(text)
    with pytest.raises(OptionError):
        _parse_upstream(text)


def test_listen_takes_a_range():
    assert _parse_listen_address(":9092-9094") == ("127.0.0.1", (9092, 9093, 9094))
    assert _parse_listen_address("0.0.0.0:9092") == ("0.0.0.0", (9092,))
    assert _parse_listen_address("[::1]:9092") == ("::1", (9092,))


def test_only_an_address_of_this_machine_alone_needs_no_warning():
    assert all(map(_is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(_is_loopback, ("0.0.0.0", "::", "10.0.0.7", "kafka-proxy")))
