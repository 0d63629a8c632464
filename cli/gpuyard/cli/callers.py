"""`gpuyard doctor`: does the extender answer kube-scheduler alone?"""

from http import HTTPStatus

from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import ACCOUNT, NAMESPACE, Patient, command_of, option
from gpuyard.common import tokens
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.http import LOOPBACK
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONFIG_MAPS, SECRETS
from gpuyard.common.settings import SettingsError, parse

KNOWN = "the extender knows its callers"
_CLOSE = "take `authentication: none` out of its settings, and give kube-scheduler the token: docs/security.md"
_MAKE = "run `gpuyard certificates token --save /etc/kubernetes/gpuyard` on each control plane: docs/install.md"


async def known(patient: Patient) -> list[Finding]:
    """Whether a token or a certificate is asked for where others than kube-scheduler reach the port."""
    if not patient.extenders:
        return []  # of one that runs as no pod nobody here knows how it was started
    way = await authentication(patient)
    if way == "none":
        seen = "`authentication: none`: whoever reaches its port is answered as if they were kube-scheduler"
        return [Finding(KNOWN, Status.WARN, seen, _CLOSE)]
    if way == "token" and not await _has_token(patient):
        seen = f"Secret {NAMESPACE}/{tokens.SECRET} has no token, so that nobody is answered"
        return [Finding(KNOWN, Status.FAIL, seen, _MAKE)]
    return [Finding(KNOWN, Status.OK, _FINE[way])]


_FINE = {
    "token": "it answers only callers with the token",
    "mtls": "it answers only callers with a certificate",
    "loopback": "its port is on the loopback of its pod",
}


async def authentication(patient: Patient) -> str:
    """How the extenders know their callers: token, mtls, none, or loopback where there is nobody to be known."""
    words = next((found for pod in patient.extenders if (found := _command(pod)) is not None), [])
    if option(words, "--tls"):
        return "mtls"
    held = await patient.get(CONFIG_MAPS.named(ACCOUNT, NAMESPACE)) or {}
    way = _setting((held.get("data") or {}).get("extender.yaml", ""))
    return "loopback" if way == "none" and option(words, "--host") in LOOPBACK else way


def _command(pod: Json) -> list[str] | None:
    return command_of(pod, "gpuyard.extender", "gpuyard-extender")


def _setting(text: str) -> str:
    """What a settings file says; one that cannot be used is not in force."""
    try:
        return parse(text.encode(), ExtenderConfig, ACCOUNT).authentication
    except SettingsError:
        return ExtenderConfig().authentication


async def _has_token(patient: Patient) -> bool:
    """Whether the Secret is there; so it is taken to be by those who may not read it."""
    try:
        found = await patient.get(SECRETS.named(tokens.SECRET, NAMESPACE))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return True
    return tokens.TOKEN in ((found or {}).get("data") or {})
