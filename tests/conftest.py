"""Profiles of hypothesis for the whole suite: `quick` by default, `deep` by KAFKAFRAMES_PROFILE=deep (make deep)."""

import os

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
