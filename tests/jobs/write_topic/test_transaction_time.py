"""Transaction timeouts of micro-batches: the requested timeout, and the warnings before a batch is written.

``tests/spark/test_topic_transaction.py`` tests batches that exceed the timeout.
"""

from kafkaframes.jobs.write_topic.transaction_time import TransactionTimeouts


def test_timeouts_follow_the_measured_duration():
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
    assert times.make_slowness_warning() is None
    assert TransactionTimeouts().timeout_ms == 60_000  # brokers that do not report the limit


def test_a_warning_names_the_remedies():
    times = TransactionTimeouts(chosen_ms=60_000, limit_ms=900_000)
    assert times.make_slowness_warning(30_000) is None
    assert "up to the brokers' transaction.max.timeout.ms, 900000" in times.make_slowness_warning(30_001)
    assert "is the brokers' transaction.max.timeout.ms" in TransactionTimeouts(limit_ms=900_000).make_slowness_warning(
        500_000
    )
    assert TransactionTimeouts().make_slowness_warning(500_000) is None  # the limit is unknown
