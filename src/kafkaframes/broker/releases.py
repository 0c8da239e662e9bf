"""A broker as a release of Kafka: exactly the APIs and versions that it serves, and its record format."""

from __future__ import annotations

from dataclasses import replace

from kafkaframes.broker.api import Api
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.broker.table import ServedApis, all_apis
from kafkaframes.protocol.spec.releases import release

_FORMAT = "log.message.format.version"
_FIRST_OF_FORMAT_2 = (3,)  # from here on message.format.version is not looked at (KIP-724)


def play(name: str, settings: BrokerSettings) -> ServedApis:
    """Return the APIs of a release, as far as they are served here; a topic is written in its format by default.

    Raises:
        OptionError: no such release is known.
    """
    chosen = release(name)
    version = tuple(int(part) for part in chosen.name.split(".")[:3])
    settings.writes_format_2 = version >= _FIRST_OF_FORMAT_2
    settings.given.setdefault(_FORMAT, _format_of(version))
    apis: dict[int, Api] = {}
    advertised = {}
    for key, said in chosen.apis().items():
        api = all_apis().get(key)
        if api is None:
            continue
        low, high = max(said.accepted.lowest, api.range[0]), min(said.accepted.highest, api.range[1])
        if low <= high:
            apis[key] = replace(api, versions=(low, high))
            advertised[key] = said.advertised.lowest, min(said.advertised.highest, high)
    return ServedApis(apis, advertised)


def _format_of(version: tuple[int, ...]) -> str:
    """Return the ``message.format.version`` that a release writes by default."""
    return "3.0-IV1" if version >= _FIRST_OF_FORMAT_2 else ".".join(str(number) for number in version)
