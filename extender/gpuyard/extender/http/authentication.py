"""Who may call the verbs: kube-scheduler, which shows a token or a certificate; anybody, where that is set.

| `authentication` | who is answered | what else |
|---|---|---|
| `token` (default) | a caller with a token of the folder of `--token` | connections of others are dropped first |
| `mtls` | a caller with a certificate of the authority in the folder of `--tls` | TLS has refused all others |
| `none` | anybody | reported in the log and by `gpuyard doctor` |

Decided in docs/decisions.md: "A token is the first way to know kube-scheduler, certificates are the second"; "Without
a token the extender runs, is not ready, and refuses everybody".
"""

import asyncio
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

from gpuyard.common import tokens
from gpuyard.common.extender_config import Authentication
from gpuyard.common.settings import SettingsError

NO_TOKENS = f"gpuyard has no token to know its callers by; {tokens.REMEDY}"
_NEEDED = f"`urlPrefix` in kube-scheduler's configuration needs the one of Secret {tokens.SECRET}"
NOT_SHOWN = f"the caller shows no token; {_NEEDED}"
NOT_KNOWN = f"the caller's token is not valid; {_NEEDED}"
NO_CERTIFICATES = "the extender runs with `authentication: mtls` and without --tls, so that it answers nobody"


class Standing(NamedTuple):
    """What a caller has proven."""

    refusal: str = ""
    """Why it is not answered; empty: it is."""
    known: bool = False
    """Whether it has proven to be kube-scheduler; connections of others are dropped first."""


KNOWN, ANYBODY = Standing(known=True), Standing()


class Tokens:
    """The tokens of a folder, followed while the process runs. What cannot be used never replaces what could."""

    def __init__(
        self,
        folder: Path,
        *,
        changed: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda _: None,
        interval: float = 2,
    ) -> None:
        """Read the folder for the first time; it may well be empty, since the Secret may come later."""
        self._folder = folder
        self._changed = changed
        self._refused = refused
        self._interval = interval
        self.accepted: tuple[bytes, ...] = ()
        """The headers that are accepted."""
        self.problem = ""
        """Why the folder cannot be used at this moment."""
        self.poll()

    async def run(self) -> NoReturn:
        """Follow the folder until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            self.poll()

    def poll(self) -> None:
        """Look once: `changed` is told of new tokens, `refused` of each new problem, once."""
        try:
            found = tuple(map(tokens.authorization, tokens.read(self._folder)))
        except SettingsError as error:
            if str(error) != self.problem:
                self._refused(f"{error}; the last good tokens stay in force" if self.accepted else str(error))
            self.problem = str(error)
            return
        self.problem = ""
        if found != self.accepted:
            first, self.accepted = not self.accepted, found
            if not first:
                self._changed()


class Gate:
    """Decides at the head of each call whether the caller is answered."""

    def __init__(self, mode: Callable[[], Authentication]) -> None:
        self._mode = mode
        self.tokens: Tokens | None = None
        self.by_certificate = False
        """Whether TLS has let in none but kube-scheduler, so that nothing else is asked for."""

    def standing(self, authorization: bytes) -> Standing:
        """What a caller with this header has proven."""
        mode = "mtls" if self.by_certificate else self._mode()
        if mode == "token":
            return self._by_token(authorization)
        if mode == "none":
            return ANYBODY
        return KNOWN if self.by_certificate else Standing(NO_CERTIFICATES)

    def problem(self) -> str:
        """Why nobody at all can be answered; empty: somebody can."""
        if self.by_certificate or self._mode() == "none":
            return ""
        if self._mode() == "mtls":
            return NO_CERTIFICATES
        if self.tokens and self.tokens.accepted:
            return ""
        return (self.tokens and self.tokens.problem) or NO_TOKENS

    def _by_token(self, authorization: bytes) -> Standing:
        accepted = self.tokens.accepted if self.tokens else ()
        # Each is compared, so that the time tells nothing of which one, nor of how much of it, was right.
        if sum([hmac.compare_digest(authorization, each) for each in accepted]):
            return KNOWN
        if not accepted:
            return Standing(NO_TOKENS)
        return Standing(NOT_KNOWN if authorization else NOT_SHOWN)
