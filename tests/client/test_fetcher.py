"""What a consumer does with errors of a fetch: it asks again where that can help, and else it raises."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.failures import failed
from kafkaframes.broker.request import Request
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import BrokerError, ErrorCode

AGAIN = [code for code in ErrorCode if code.is_retriable and code != ErrorCode.CORRUPT_MESSAGE]
RAISED = [
    ErrorCode.CORRUPT_MESSAGE,  # a retry would read the same bytes
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def of_partitions(request: Request, code: ErrorCode) -> object:
    """Return an answer in which every partition has failed, and the request has not."""
    answer = failed(request, code)
    answer.error_code = 0
    return answer


@pytest.mark.parametrize("code", [*AGAIN, *RAISED], ids=lambda code: code.name)
def test_errors_of_a_partition_are_raised_where_a_retry_cannot_help(code):
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"first").result()
        settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 1}
        with Consumer(broker.bootstrap_servers, **settings) as consumer:
            partitions = consumer.partitions_for("t")
            with broker.on("Fetch").answer(lambda request: of_partitions(request, code)).once() as rule:
                consumer.assign(partitions)
                if code in AGAIN:
                    assert consumer.poll(60_000)[0].value == b"first"
                else:
                    with pytest.raises(BrokerError, match=code.name):
                        consumer.poll(60_000)
                assert rule.seen
