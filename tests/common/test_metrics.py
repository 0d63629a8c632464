"""The process's own metrics say what runs and what its caches hold."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from gpuyard.common.kube.reflector import Counts, Reflector
from gpuyard.common.kube.resources import PODS
from gpuyard.common.metrics import CacheCollector, CertificateCollector, LeaseCollector, exposition, new_registry
from gpuyard.common.version import __version__

if TYPE_CHECKING:
    from gpuyard.common.lease import Elector


def cache(**state: object) -> Reflector[Any]:
    known = {"store": {"a": 1, "b": 2}, "synced": True, "age": lambda: 3.5, "counts": Counts(lists=2, undecodable=1)}
    return cast("Reflector[Any]", SimpleNamespace(address=PODS.within(), **(known | state)))


def test_the_build_is_known() -> None:
    text = exposition(new_registry("gpuyard-gfd")).decode()
    (line,) = [line for line in text.splitlines() if line.startswith("gpuyard_build_info{")]
    assert 'component="gpuyard-gfd"' in line
    assert f'version="{__version__}"' in line
    assert line.endswith(" 1.0")


def test_each_process_has_a_registry_of_its_own() -> None:
    assert b'component="a"' not in exposition(new_registry("b"))
    assert b'component="a"' in exposition(new_registry("a"))


def test_memory_of_the_process_is_measured() -> None:
    assert b"process_resident_memory_bytes" in exposition(new_registry("a"))


def test_a_cache_is_described_by_its_resource() -> None:
    registry = new_registry("a")
    registry.register(CacheCollector([cache()]))
    text = exposition(registry).decode()
    for line in (
        'gpuyard_cache_objects{resource="pods"} 2.0',
        'gpuyard_cache_synced{resource="pods"} 1.0',
        'gpuyard_cache_age_seconds{resource="pods"} 3.5',
        'gpuyard_cache_lists_total{resource="pods"} 2.0',
        'gpuyard_cache_undecodable_total{resource="pods"} 1.0',
    ):
        assert line in text


def test_the_state_is_read_at_each_scrape() -> None:
    registry, store = new_registry("a"), dict[str, int]()
    registry.register(CacheCollector([cache(store=store)]))
    store["new"] = 1
    assert 'gpuyard_cache_objects{resource="pods"} 1.0' in exposition(registry).decode()


def test_a_lease_says_whether_we_lead_and_how_often_it_changed_hands() -> None:
    registry = new_registry("a")
    elector = SimpleNamespace(name="gpuyard-extender", leading=True, transitions=3)
    registry.register(LeaseCollector([cast("Elector", elector)]))
    text = exposition(registry).decode()
    assert 'gpuyard_lease_leading{lease="gpuyard-extender"} 1.0' in text
    assert 'gpuyard_lease_transitions_total{lease="gpuyard-extender"} 3.0' in text


def test_certificates_say_at_each_scrape_when_they_run_out() -> None:
    registry, ends = new_registry("a"), {"tls.crt": 7.0}
    registry.register(CertificateCollector(lambda: ends))
    ends["tls.crt"] = 8.0
    told = 'gpuyard_certificate_expiry_timestamp_seconds{file="tls.crt"} 8.0'
    assert told in exposition(registry).decode()
