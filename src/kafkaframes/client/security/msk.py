"""Amazon MSK's IAM login: a SigV4 token of the caller's AWS credentials, by the extra ``msk``.

Java's clients have a mechanism of Amazon's for it, ``AWS_MSK_IAM``; every other client logs in at the same port by
OAUTHBEARER, with a token that is good for 15 minutes. So does this one, whichever of the two its settings name.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from kafkaframes.errors import MissingExtraError, OptionError

_MECHANISM: Final = "AWS_MSK_IAM"
_HANDLERS: Final = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
_REGION_OF_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SIGNER: Final = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
_SESSION: Final = "MSKSASLDefaultSession"
_FRESH: Final = 0.8  # of its life a token is taken again


@dataclass
class IamToken:
    """Gives tokens for a region; callable from any thread.

    Attributes:
        region: of the cluster.
        profile: of ``~/.aws``; None for the usual chain of credentials.
        role: the ARN of a role that is assumed; None for none.
        session: the name of the session with that role.
    """

    region: str
    profile: str | None = None
    role: str | None = None
    session: str = _SESSION
    _token: str = field(default="", repr=False)
    _fresh_until: float = field(default=0.0, repr=False)

    def __call__(self) -> str:
        """Return a token that is fresh.

        Raises:
            MissingExtraError: Amazon's signer is not installed.
        """
        if time.time() >= self._fresh_until:
            self._token, expires_ms = self._signed()
            self._fresh_until = time.time() + (expires_ms / 1000 - time.time()) * _FRESH
        return self._token

    def _signed(self) -> tuple[str, int]:
        try:
            signer = import_module(_SIGNER)
        except ImportError as error:
            raise MissingExtraError(f"sasl.mechanism {_MECHANISM}", "msk") from error
        made: tuple[str, int]
        if self.role is not None:
            made = signer.generate_auth_token_from_role_arn(self.region, self.role, self.session)
        elif self.profile is not None:
            made = signer.generate_auth_token_from_profile(self.region, self.profile)
        else:
            made = signer.generate_auth_token(self.region)
        return made


def iam_token(hosts: list[str], options: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> IamToken:
    """Return what gives tokens.

    Args:
        hosts: of the bootstrap servers; MSK's names hold the region.
        options: of Amazon's login module: ``awsProfileName``, ``awsRoleArn``, ``awsRoleSessionName``.
        environ: has the region where no host does.

    Raises:
        OptionError: the region is not known.
    """
    regions = [match[1] for host in hosts if (match := _REGION_OF_HOST.search(host)) is not None]
    regions += [environ[name] for name in _REGION_VARIABLES if environ.get(name)]
    if not regions:
        raise OptionError(
            f"sasl.mechanism {_MECHANISM}: no region in the names of the bootstrap servers, nor in "
            f"{' or '.join(_REGION_VARIABLES)}"
        )
    profile, role = options.get("awsProfileName"), options.get("awsRoleArn")
    return IamToken(regions[0], profile, role, options.get("awsRoleSessionName", _SESSION))


def is_iam(settings: Any) -> bool:
    """Return whether settings of a client name Amazon's login, by its mechanism or its handler."""
    handler = (settings.sasl_login_callback_handler_class or "").rpartition(".")[2]
    return settings.sasl_mechanism == _MECHANISM or handler in _HANDLERS
