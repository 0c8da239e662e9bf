"""How long transactions of micro-batches may be open: what is asked for, and what is said before a batch is written.

What a batch that takes too long comes to: ``test_topic_transaction.py``.
"""

from kafkaframes.jobs.write_topic.transaction_time import TransactionTimeouts


def test_time_outs_follow_what_was_measured():
    times = TransactionTimeouts(limit_ms=900_000)
    assert times.timeout_ms == 900_000
    for open_ms, expected_ms in (
        (100, 60_000),
        (20_000, 80_000),
        (300_000, 900_000),
        *[(10, 900_000)] * 4,
        (10, 60_000),
    ):
        times.add_duration(open_ms)
        assert times.timeout_ms == expected_ms
    assert times.slow_transaction_warning() is None
    assert TransactionTimeouts().timeout_ms == 60_000  # brokers that do not tell


def test_a_warning_names_what_can_be_done():
    times = TransactionTimeouts(chosen_ms=60_000, limit_ms=900_000)
    assert times.slow_transaction_warning(30_000) is None
    assert "may be as large as the brokers' transaction.max.timeout.ms, 900000" in times.slow_transaction_warning(
        30_001
    )
    assert "is the brokers' transaction.max.timeout.ms" in TransactionTimeouts(
        limit_ms=900_000
    ).slow_transaction_warning(500_000)
    assert TransactionTimeouts().slow_transaction_warning(500_000) is None  # nobody tells what is allowed
