"""One Spark session for the whole suite: it costs about eight seconds to the first result."""

import pytest

import kafkaframes

SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    """A session of ours that knows nothing of ``register()``."""
    session = kafkaframes.spark.session("kafkaframes tests", master="local[2]", memory="512m", config=SMALL)
    yield session
    session.stop()
