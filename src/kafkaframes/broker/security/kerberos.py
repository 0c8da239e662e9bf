"""The server side of GSSAPI with Kerberos (RFC 4752), which requires the extra ``kerberos``.

As in Kafka, no security layer is offered, and the client's authorization id is ignored. Tickets are checked in a
thread, because the check reads the keytab and may resolve host names.

The rules in ``sasl.kerberos.principal.to.local.rules`` map principals to users, as in Kafka. A rule is ``DEFAULT``,
which accepts principals of the default realm, or ``RULE:[n:format](match)s/from/to/gL``. A ``RULE`` applies to
principals with ``n`` components. The rule expands ``format`` (``$0`` is the realm, ``$1`` and ``$2`` are components).
The expanded text must match ``match`` completely. The rule then replaces the first match of ``from`` (all matches with
``g``), and changes the case with ``L`` or ``U``. The first rule that applies and matches is used. Rules use Python's
regular expressions, which are compatible with Java's in usual cases.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.broker.requests.login import SaslExchange
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.settings.security_keys import KERBEROS_RULES_KEY
from kafkaframes.errors import OptionError, import_extra

_PRINCIPAL_PATTERN: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE_PATTERN: Final = re.compile(
    r"RULE:\[(?P<count>[0-9]{1,9}):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<replaced>[^/]*)/(?P<by>[^/]*)/(?P<all>g?))?/?(?P<case>[LU]?)"
)
_PARAMETER_PATTERN: Final = re.compile(r"\$([0-9]*)")
_REPLACEMENT_PATTERN: Final = re.compile(r"\\(.)|\$([0-9]+)|([^\\$])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _PrincipalRule:
    """A rule that maps principals to users. A rule without ``format`` is ``DEFAULT``."""

    count: int = 0
    format: str | None = None
    match: re.Pattern[str] | None = None
    replacement: re.Pattern[str] | None = None
    replacement_parts: tuple[str | int, ...] = ()  # parts of the replacement: texts and group numbers
    replaces_all: bool = False
    case: str = ""

    def apply_to(self, realm: str, parts: tuple[str, ...], default_realm: str) -> str | None:
        """Return the user name for a principal; None if the rule does not match."""
        if self.format is None:
            return parts[0] if realm == default_realm else None
        if len(parts) != self.count:
            return None
        parameters = (realm, *parts)
        name = _PARAMETER_PATTERN.sub(lambda match: parameters[int(match[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.replacement is not None:
            name = self.replacement.sub(self._replacement, name, count=0 if self.replaces_all else 1)
        return name

    def _replacement(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement_parts)


class PrincipalRules:
    r"""The rules that map principals to users.

    Args:
        rules: mapping rules, in order; if empty, the only rule is DEFAULT.
        default_realm: realm whose principals DEFAULT accepts.

    >>> names = PrincipalRules([r"RULE:[2:$1](kafka)s/.*/broker/", "RULE:[1:$1@$0](.*@OLD)s/@.*//L", "DEFAULT"], "NEW")
    >>> names.map_principal("kafka/a.example@NEW"), names.map_principal("Alice@OLD"), names.map_principal("bob@NEW")
    ('broker', 'alice', 'bob')
    """

    def __init__(self, rules: Iterable[str] = (), default_realm: str = "") -> None:
        self._rules = [_parse_rule(rule) for rule in rules] or [_PrincipalRule()]
        self._default_realm = default_realm

    def map_principal(self, principal: str) -> str:
        """Return the user of a principal.

        Raise an ``AuthenticationError`` if no rule returns a name, or the name contains ``/`` or ``@``.
        """
        match = _PRINCIPAL_PATTERN.fullmatch(principal)
        if match is None:
            raise AuthenticationError("the principal's name is malformed")
        service, host, realm = match.groups()
        parts = (service,) if host is None else (service, host)
        for rule in self._rules:
            name = rule.apply_to(realm, parts, self._default_realm)
            if name is not None:
                if not name or "/" in name or "@" in name:
                    raise AuthenticationError(
                        f"{KERBEROS_RULES_KEY} map the principal to a name that is empty or contains / or @"
                    )
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        raise AuthenticationError(f"{KERBEROS_RULES_KEY} has no rule for the principal")


def _parse_rule(text: str) -> _PrincipalRule:
    if text == "DEFAULT":
        return _PrincipalRule()
    match = _RULE_PATTERN.fullmatch(text)
    if match is None:
        raise OptionError(f"{KERBEROS_RULES_KEY}: {text!r} is neither DEFAULT nor RULE:[n:format](match)s/from/to/gL")
    count = int(match["count"])
    if any(not 0 < len(number) < 10 or int(number) > count for number in _PARAMETER_PATTERN.findall(match["format"])):
        raise OptionError(f"{KERBEROS_RULES_KEY}: {text!r}: its format may only contain $0 to ${count}")
    replacement = None if match["replaced"] is None else _compile_pattern(match["replaced"], text)
    return _PrincipalRule(
        count,
        match["format"],
        None if match["match"] is None else _compile_pattern(match["match"], text),
        replacement,
        () if replacement is None else _parse_replacement(match["by"], replacement.groups, text),
        bool(match["all"]),
        match["case"],
    )


def _compile_pattern(text: str, rule: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError) as error:
        raise OptionError(
            f"{KERBEROS_RULES_KEY}: {rule!r}: {text!r} is not a valid regular expression: {error}"
        ) from None


def _parse_replacement(text: str, groups: int, rule: str) -> tuple[str | int, ...]:
    r"""Parse a replacement in Java's syntax: ``$1`` is a group, a backslash quotes the next character."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _REPLACEMENT_PATTERN.match(text, position)
        number, further_digits = ("", "") if match is None or match[2] is None else (match[2][:1], match[2][1:])
        if match is None or (number and int(number) > groups):
            raise OptionError(
                f"{KERBEROS_RULES_KEY}: {rule!r}: {text!r} refers to a group that does not exist,"
                " or ends with an incomplete escape"
            )
        while further_digits and int(number + further_digits[0]) <= groups:
            number, further_digits = number + further_digits[0], further_digits[1:]
        parts.append(int(number) if number else match[1] or match[3])
        position = match.end() - len(further_digits)
    return tuple(parts)


# Bit mask of security layers (only "no layer"), and the largest message size.
_NO_SECURITY_LAYER: Final = bytes([1, 0, 0, 0])
_REJECTION_MESSAGE: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
)
_LOGGER = logging.getLogger("kafkaframes.broker")


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The options for accepting Kerberos tickets in a broker.

    Attributes:
        keytab: keytab file; None for the keytab of the process (``KRB5_KTNAME``).
        principal: service principal of the tickets (``kafka/host@REALM``); None accepts all principals in the keytab.
        service: service name for any host, such as ``kafka``, if ``principal`` is None.
        rules: rules that map principals to users, in the syntax of ``PrincipalRules``.
    """

    keytab: str | None = None
    principal: str | None = None
    service: str | None = None
    rules: Sequence[str] = ()

    def parse_rules(self) -> PrincipalRules:
        """Return the parsed rules. The default realm is read from the Kerberos configuration.

        Raises:
            OptionError: a rule is invalid, or the keytab cannot be read.
            MissingExtraError: ``gssapi`` is not installed.
        """
        library = import_extra("sasl.enabled.mechanisms GSSAPI", "kerberos", "gssapi")
        try:
            self.credentials(library)
            user = library.Name("user", library.NameType.user).canonicalize(library.MechType.kerberos)
        except library.exceptions.GSSError as error:
            raise OptionError(f"GSSAPI: the keytab cannot be used: {error.gen_message()}") from None
        return PrincipalRules(self.rules, str(user).rpartition("@")[2])

    def credentials(self, library: Any) -> Any:
        """Return the acceptor credentials, which are read at each login, because keytabs change."""
        types, name = library.NameType, None
        if self.principal is not None:
            name = library.Name(self.principal, types.kerberos_principal)
        elif self.service is not None:
            name = library.Name(self.service, types.hostbased_service)
        store = None if self.keytab is None else {"keytab": self.keytab}
        return library.Credentials(name=name, usage="accept", mechs=[library.MechType.kerberos], store=store)


class KerberosExchange(SaslExchange):
    """A GSSAPI authentication: the ticket, the offered security layers, and the client's choice."""

    def __init__(self, kerberos: Kerberos, names: PrincipalRules) -> None:
        self._kerberos = kerberos
        self._names = names
        self._library = import_extra("sasl.enabled.mechanisms GSSAPI", "kerberos", "gssapi")
        self._context: Any = None
        self._has_offered = False

    def respond(self, message: bytes) -> bytes:
        """Return the response to a client message.

        The last message sets ``user``. The authentication may wait for files and name resolution.
        """
        try:
            return self._advance_context(message)
        except self._library.exceptions.GSSError as error:
            _LOGGER.warning("GSSAPI: a client was rejected: %s", error.gen_message())
            raise AuthenticationError(_REJECTION_MESSAGE) from None

    def _advance_context(self, message: bytes) -> bytes:
        """Return the server's next message for a client message."""
        if self._has_offered:
            return self._finish_exchange(message)
        if self._context is None:
            credentials = self._kerberos.credentials(self._library)
            self._context = self._library.SecurityContext(creds=credentials, usage="accept")
            self._context.__DEFER_STEP_ERRORS__ = False  # as in Kafka, no error token is sent
        elif self._context.complete:
            if message:
                raise AuthenticationError("GSSAPI: the client's message must be empty")
            return self._offer_layers()
        token: bytes = self._context.step(message) or b""
        return token if token or not self._context.complete else self._offer_layers()

    def _offer_layers(self) -> bytes:
        """Return the message that offers a connection without a security layer."""
        self._has_offered = True
        layer_message: bytes = self._context.wrap(_NO_SECURITY_LAYER, False).message
        return layer_message

    def _finish_exchange(self, message: bytes) -> bytes:
        """Read the client's choice of a security layer, and set the user."""
        client_message = self._context.unwrap(message).message
        if len(client_message) < len(_NO_SECURITY_LAYER) or client_message[0] != _NO_SECURITY_LAYER[0]:
            raise AuthenticationError("GSSAPI: the client must choose no security layer")
        self.user = self._names.map_principal(str(self._context.initiator_name))
        return b""
