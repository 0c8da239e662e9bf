"""Profiles of hypothesis for the whole suite: `quick` by default, `deep` by KAFKAFRAMES_PROFILE=deep (make deep).

And one Spark session for the whole suite: it costs about eight seconds to the first result.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("deep", parent=settings.get_profile("quick"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("KAFKAFRAMES_PROFILE", "quick"))

SMALL_SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    """A session of ours that knows nothing of ``register()``."""
    import kafkaframes

    session = kafkaframes.spark.session("kafkaframes tests", master="local[2]", memory="512m", config=SMALL_SPARK)
    yield session
    session.stop()
