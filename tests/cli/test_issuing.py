"""Certificates as they are issued: handshakes show what they are good for, the clock when they are renewed."""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING

import pytest
from gpuyard.cli import issuing, keeping
from gpuyard.cli.issuing import CLIENT, SERVER, Issued, Pems
from gpuyard.common.tls import Identity

if TYPE_CHECKING:
    from pathlib import Path

NOW = dt.datetime.now(dt.UTC)
HOSTS = ("gpuyard-extender", "gpuyard-extender.gpuyard.svc")


@pytest.fixture(scope="module")
def authority() -> Issued:
    return issuing.authority("gpuyard", NOW)


def of_server(by: Issued, now: dt.datetime = NOW) -> Pems:
    return issuing.leaf(by, "server", SERVER, HOSTS, now).pems(by.certificate)


def of_client(by: Issued, now: dt.datetime = NOW) -> Pems:
    return issuing.leaf(by, "client", CLIENT, (), now).pems(by.certificate)


def shaken(server: Pems, client: Pems | None, folder: Path, name: str = HOSTS[-1]) -> ssl.SSLObject:
    """The server's side of a finished handshake; raises `SSLError` where one of them does not accept the other."""
    for part, pems in (("server", server), ("client", client or server)):
        keeping.save(folder / part, pems)
    context = ssl.create_default_context(cafile=str(folder / "client" / "ca.crt"))
    if client:
        context.load_cert_chain(folder / "client" / "tls.crt", folder / "client" / "tls.key")
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = Identity(folder / "server").context.wrap_bio(out, back, server_side=True)
    theirs = context.wrap_bio(back, out, server_hostname=name)
    for _ in range(4):
        for end in (theirs, ours):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours


def test_each_end_accepts_the_other(authority: Issued, tmp_path: Path) -> None:
    ours = shaken(of_server(authority), of_client(authority), tmp_path)
    subject = (ours.getpeercert() or {})["subject"]
    assert subject == ((("commonName", "client"),),)


def test_a_caller_without_a_certificate_is_refused(authority: Issued, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shaken(of_server(authority), None, tmp_path)


def test_the_extenders_own_certificate_does_not_make_a_caller(authority: Issued, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken(of_server(authority), of_server(authority), tmp_path)


def test_the_schedulers_certificate_does_not_make_a_server(authority: Issued, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError):
        shaken(of_client(authority), of_client(authority), tmp_path)


def test_a_certificate_whose_time_is_over_is_refused(authority: Issued, tmp_path: Path) -> None:
    late = of_client(authority, NOW - issuing.LIFE - dt.timedelta(days=1))
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        shaken(of_server(authority), late, tmp_path)


def test_one_of_another_authority_is_refused(authority: Issued, tmp_path: Path) -> None:
    other = of_client(issuing.authority("gpuyard", NOW)) | {"ca.crt": of_server(authority)["ca.crt"]}
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken(of_server(authority), other, tmp_path)


def test_what_is_good_for_long_stays(authority: Issued) -> None:
    assert issuing.why_new(of_server(authority), authority, HOSTS, NOW) == ""
    assert issuing.why_new(of_client(authority), authority, (), NOW) == ""


def test_a_month_before_its_end_it_is_renewed(authority: Issued) -> None:
    turn = NOW + issuing.LIFE - issuing.RENEW_BEFORE
    held = of_client(authority)
    assert issuing.why_new(held, authority, (), turn - dt.timedelta(minutes=1)) == ""
    assert issuing.why_new(held, authority, (), turn + dt.timedelta(minutes=1)) == "it runs out soon"


def test_no_certificate_outlives_its_authority(authority: Issued) -> None:
    late = authority.until - dt.timedelta(days=10)
    held = of_client(authority, late)
    assert issuing.read(held).until == authority.until
    assert issuing.why_new(held, authority, (), late) == "", "another one would end on the same day"


WRONG = {
    "nothing": (None, "there is none"),
    "empty": ({}, "it holds no certificate and key"),
    "nonsense": ({"tls.crt": b"-", "tls.key": b"-"}, "it holds no certificate and key"),
}


@pytest.mark.parametrize(("held", "why"), WRONG.values(), ids=WRONG.keys())
def test_what_is_none_is_made_anew(authority: Issued, held: Pems | None, why: str) -> None:
    assert issuing.why_new(held, authority, (), NOW).startswith(why)


def test_a_key_of_another_certificate_is_noticed(authority: Issued) -> None:
    held = of_client(authority) | {"tls.key": of_client(authority)["tls.key"]}
    assert issuing.why_new(held, authority, (), NOW) == "its key is not that of its certificate"


def test_after_a_change_of_authority_both_ends_are_made_anew(authority: Issued) -> None:
    other = issuing.authority("gpuyard", NOW)
    assert issuing.why_new(of_client(other), authority, (), NOW) == "it is of another authority"
    trusting = of_client(authority) | {"ca.crt": of_client(other)["ca.crt"]}
    assert issuing.why_new(trusting, authority, (), NOW) == "it trusts another authority"


def test_other_names_need_another_certificate(authority: Issued) -> None:
    assert issuing.why_new(of_server(authority), authority, ("elsewhere",), NOW) == "it is for other names"


def test_the_authority_signs_for_ends_only(authority: Issued, tmp_path: Path) -> None:
    between = issuing.leaf(authority, "between", CLIENT, (), NOW)
    forged = issuing.leaf(between, "client", CLIENT, (), NOW).pems(authority.certificate)
    chain = forged | {"tls.crt": forged["tls.crt"] + between.pems()["tls.crt"]}
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken(of_server(authority), chain, tmp_path)
