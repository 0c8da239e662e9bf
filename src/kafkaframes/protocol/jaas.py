"""Parser of ``sasl.jaas.config``: a login module and its options, as Java clients accept them (KIP-85).

The form is ``LoginModuleClass controlFlag name="value" ... ;``. Only the last part of the class name is compared, so
that shaded names (``kafkashaded.org.apache.kafka...PlainLoginModule``) are accepted. Error messages contain no values
of options, because these are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkaframes.errors import OptionError

_WORD_PATTERN: Final = re.compile(
    r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.DOTALL
)  # Java's StreamTokenizer also accepts both kinds of quotes
_ESCAPE_PATTERN: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED_CHARACTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL_DIGITS: Final = frozenset("01234567")
_PUNCTUATION_WORDS: Final = (("=", False), (";", False))
_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
KERBEROS_MODULE: Final = "Krb5LoginModule"
# login module -> SASL mechanisms
MECHANISMS_BY_MODULE: Final[Mapping[str, tuple[str, ...]]] = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
    KERBEROS_MODULE: ("GSSAPI",),
}


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """A parsed JAAS configuration: the short name of the login module, and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def keytab(self) -> str | None:
        """Path of the keytab, if the configuration is for Kerberos and uses one."""
        return self.options.get("keyTab") if self.has_option("useKeyTab") else None

    def has_option(self, option: str) -> bool:
        """Return whether an option is true."""
        return self.options.get(option, "false").lower() == "true"

    def service_name(self, setting: str | None) -> str | None:
        """Return the Kerberos service name of the brokers, from the options or from the client's setting.

        Raises:
            OptionError: the option ``serviceName`` and the setting are both set and differ.
        """
        option = self.options.get("serviceName")
        if option is not None and setting not in (None, option):
            raise _bad(f"serviceName is {option}, but sasl.kerberos.service.name is {setting}")
        return option or setting

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """SASL mechanisms of the login module."""
        return MECHANISMS_BY_MODULE[self.module]


def parse(text: str) -> JaasLogin:
    r"""Parse a JAAS configuration.

    >>> login = parse('org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="\\"b";')
    >>> login.module, login.options["username"], login.options["password"]
    ('PlainLoginModule', 'a', '"b')

    Raises:
        OptionError: the text is invalid, or the login module is not supported.
    """
    words = _split_words(text)
    if len(words) < 3 or words[-1] != (";", False):
        raise _bad("expected a login module, a control flag, options and a semicolon at the end")
    module = words[0][0].rpartition(".")[2]
    if module not in MECHANISMS_BY_MODULE:
        raise _bad(f"unknown login module {module}; expected {', '.join(MECHANISMS_BY_MODULE)}")
    if words[1][0].lower() not in _CONTROL_FLAGS:
        raise _bad(f"invalid control flag after {module}; expected {', '.join(_CONTROL_FLAGS)}")
    return JaasLogin(module, _parse_options(words[2:-1]))


def _split_words(text: str) -> list[tuple[str, bool]]:
    """Return the words, each with a flag that is true if it was quoted."""
    words, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _WORD_PATTERN.match(text, position)
        if match is None:
            raise _bad(f"a quote is not closed, or is inside a word (character {position})")
        double_quoted, single_quoted, plain, sign = match.groups()
        text_in_quotes = single_quoted if double_quoted is None else double_quoted
        is_quoted = text_in_quotes is not None
        words.append((_ESCAPE_PATTERN.sub(_unescape, text_in_quotes) if is_quoted else plain or sign, is_quoted))
        position = match.end()
    return words


def _unescape(match: re.Match[str]) -> str:
    """Return the character of an escape sequence (a letter or an octal number, as in Java)."""
    return (
        chr(int(match[1], 8))
        if match[1] in _OCTAL_DIGITS or len(match[1]) > 1
        else _ESCAPED_CHARACTERS.get(match[1], match[1])
    )


def _parse_options(words: list[tuple[str, bool]]) -> dict[str, str]:
    result: dict[str, str] = {}
    for index in range(0, len(words), 3):
        option = words[index : index + 3]
        if (
            len(option) < 3
            or option[1] != ("=", False)
            or option[0] in _PUNCTUATION_WORDS
            or option[2] in _PUNCTUATION_WORDS
        ):
            raise _bad(f'option {index // 3 + 1} of the login module is not name="value", or a second module follows')
        result[option[0][0]] = option[2][0]
    return result


def _bad(reason: str) -> OptionError:
    return OptionError(f"sasl.jaas.config: {reason}")


__all__ = ["KERBEROS_MODULE", "MECHANISMS_BY_MODULE", "JaasLogin", "parse"]
