"""``sasl.jaas.config``: a login module's class and its options, as Java's clients take them (KIP-85).

``LoginModuleClass controlFlag name="value" ... ;``. Of the class only the last part counts, so that shaded names
(``kafkashaded.org.apache.kafka...PlainLoginModule``) are understood. Values are secrets: no message shows one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkaframes.errors import OptionError

_WORD: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
KERBEROS: Final = "Krb5LoginModule"
# login module -> the mechanisms that it is for
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
    KERBEROS: ("GSSAPI",),
}


@dataclass(frozen=True, slots=True)
class Login:
    """What a JAAS configuration says: the module's short name and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def keytab(self) -> str | None:
        """The file with a principal's keys, of a login by Kerberos."""
        return self.options.get("keyTab") if self.has("useKeyTab") else None

    def has(self, option: str) -> bool:
        """Return whether an option is true."""
        return self.options.get(option, "false").lower() == "true"

    def service_name(self, configured: str | None) -> str | None:
        """Return the service that brokers are for Kerberos, which both the login and ``configured`` may name.

        Raises:
            OptionError: they name two.
        """
        own = self.options.get("serviceName")
        if own is not None and configured not in (None, own):
            raise _bad(f"serviceName is {own}, and sasl.kerberos.service.name {configured}")
        return own or configured

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that the module is for."""
        return MODULES[self.module]


def parse(text: str) -> Login:
    r"""Read a JAAS configuration.

    >>> login = parse('org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="\\"b";')
    >>> login.module, login.options["username"], login.options["password"]
    ('PlainLoginModule', 'a', '"b')

    Raises:
        OptionError: it is no such text, or another login module; no value is shown.
    """
    words = _words(text)
    if len(words) < 3 or words[-1] != (";", False):
        raise _bad("a login module, a control flag, options and a semicolon at the end are required")
    module = words[0][0].rpartition(".")[2]
    if module not in MODULES:
        raise _bad(f"no login module {module}; there are {', '.join(MODULES)}")
    if words[1][0].lower() not in _FLAGS:
        raise _bad(f"the control flag behind {module} is one of {', '.join(_FLAGS)}")
    return Login(module, _options(words[2:-1]))


def _words(text: str) -> list[tuple[str, bool]]:
    """Return the words, each with whether it was quoted."""
    words, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _WORD.match(text, position)
        if match is None:
            raise _bad(f"a quote is not closed, or stands in a word (character {position})")
        quoted, plain, sign = match.groups()
        words.append((_ESCAPE.sub(r"\1", quoted) if quoted is not None else plain or sign, quoted is not None))
        position = match.end()
    return words


def _options(words: list[tuple[str, bool]]) -> dict[str, str]:
    result: dict[str, str] = {}
    for index in range(0, len(words), 3):
        option = words[index : index + 3]
        if len(option) < 3 or option[1] != ("=", False) or option[0][1] or option[2] in (("=", False), (";", False)):
            raise _bad(f'option {index // 3 + 1} of the login module is no name="value", or a second module follows')
        result[option[0][0]] = option[2][0]
    return result


def _bad(reason: str) -> OptionError:
    return OptionError(f"sasl.jaas.config: {reason}")


__all__ = ["KERBEROS", "MODULES", "Login", "parse"]
