"""ExtenderConfig: strict, with the defaults that the documents name."""

from pathlib import Path
from typing import cast

import pytest
from gpuyard.common.extender_config import VOLUME_TTL, ExtenderConfig, Keep
from gpuyard.common.settings import SettingsError, Span, parse
from gpuyard.engine.model.settings import REMOVED, Removed, Settings

HEAD = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


def config(text: str = "") -> ExtenderConfig:
    return parse((HEAD + text).encode(), ExtenderConfig, "extender.yaml")


def test_defaults() -> None:
    made = config()
    assert made == ExtenderConfig()
    assert (made.filter.max_nodes, made.reservation.ttl) == (32, 60)
    assert (made.engine.default_queue, made.engine.pods_without_queue, made.engine.namespace_match) == (
        "",
        "pass",
        "off",
    )


def test_everything_set() -> None:
    made = config(
        "defaultQueue: rest\npodsWithoutQueue: refuse\nnamespaceMatch: label\n"
        "filter: {maxNodes: 10}\nreservation: {ttl: 2m}\n"
    )
    assert (made.filter.max_nodes, made.reservation.ttl) == (10, 120)
    assert (made.engine.default_queue, made.engine.pods_without_queue) == ("rest", "refuse")
    assert made.engine.namespace_match == "label"


@pytest.mark.row("B-81", case="config")
def test_the_engines_settings_are_set_under_the_names_of_plan() -> None:
    made = config(
        "placement: spread\nconsolidation: {maxMoved: -1, keepNodesEmpty: true}\n"
        "staleness: {gracePeriod: -1s}\nhonorDisruptionBudgets: false\n"
        "fairshare: {k: 0.5}\nreclaim: {saturationMultiplier: 1.25}\n"
    )
    expected = Settings()
    for key, value in {
        "placement": "spread",
        "consolidation.maxMoved": "-1",
        "consolidation.keepNodesEmpty": "true",
        "staleness.gracePeriod": "-1s",
        "honorDisruptionBudgets": "false",
        "fairshare.k": "0.5",
        "reclaim.saturationMultiplier": "1.25",
    }.items():
        expected = expected.with_text(key, value)
    assert made.engine == expected
    assert config().engine == Settings()


def test_the_extenders_own_times() -> None:
    made = config("outrank: {grace: 5s}\nplanner: {interval: 2s}\nverdict: {ttl: 1m}\n")
    assert (made.outrank.grace, made.planner.interval, made.verdict.ttl) == (5, 2, 60)
    made = config("promise: {ttl: 2m}\ncapacity: {grace: 90s}\n")
    assert (made.promise.ttl, made.capacity.grace, made.engine) == (120, 90, Settings())


def test_a_bare_off_is_read_as_it_is_meant() -> None:
    assert config("namespaceMatch: off\n").engine.namespace_match == "off"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("filter: {maxNodes: 9}\n", "filter.maxNodes"),
        ("filter: {most: 9}\n", "most"),
        ("namespaceMatch: on\n", "namespaceMatch"),
        ("consolidation: {maxMoved: -2}\n", "consolidation.maxMoved"),
        ("fairshare: {k: -1}\n", "fairshare.k"),
        ("fairshare: {k: .inf}\n", "fairshare.k"),
        ("reclaim: {saturationMultiplier: .nan}\n", "reclaim.saturationMultiplier"),
        ("reservation: {ttl: 60}\n", "reservation.ttl"),
        ("reservation: {ttl: 0s}\n", "reservation.ttl: Expected at least 1s"),
        ("promise: {ttl: -5s}\n", "promise.ttl: Expected at least 1s"),
        ("verdict: {ttl: 0s}\n", "verdict.ttl: Expected at least 1s"),
        ("planner: {interval: 0s}\n", "planner.interval: Expected at least 1s"),
        pytest.param(
            "placement: dense\n",
            "extender.yaml:3: placement: 'dense' is none of pack, spread",
            marks=pytest.mark.row("B-81", case="refused"),
        ),
        ("podsWithoutQueue: maybe\n", "podsWithoutQueue: 'maybe' is none of pass, refuse"),
        ("namespaceMatch: some\n", "namespaceMatch: 'some' is none of label, name, off"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(SettingsError, match=where):
        config(text)


@pytest.mark.row("B-83", case="accepted")
def test_a_setting_of_an_earlier_version_keeps_no_extender_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[str, Removed]", REMOVED), "filter.speed", Removed("set filter.maxNodes", "0.3"))
    warnings: list[str] = []
    text = f"{HEAD}filter: {{maxNodes: 12, speed: 3}}\n"
    made = parse(text.encode(), ExtenderConfig, "extender.yaml", warnings.append)
    assert made.filter.max_nodes == 12
    assert [warning.partition("; ")[0] for warning in warnings] == [
        "extender.yaml:3: filter.speed: removed, without effect"
    ]


def test_pods_with_volumes_have_the_time_that_volumes_take() -> None:
    made = config("reservation: {ttl: 30s}\n")
    assert made.ttl(claims_volumes=False) == 30
    assert made.ttl(claims_volumes=True) == VOLUME_TTL
    assert config("reservation: {ttl: 15m}\n").ttl(claims_volumes=True) == 900


def test_how_many_plans_that_have_ended_stay_can_be_set() -> None:
    assert config("plans: {keep: {count: 0, age: 168h}}\n").plans.keep == Keep(count=0, age=Span(7 * 24 * 3600))


@pytest.mark.parametrize("keep", ["{count: -1}", "{age: 0s}", "{number: 3}"])
def test_what_cannot_be_kept_is_refused(keep: str) -> None:
    with pytest.raises(SettingsError, match="keep"):
        config(f"plans: {{keep: {keep}}}\n")


def test_the_shipped_sample_is_valid(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "manifests" / "samples" / "extender-config.yaml"
    assert parse(sample.read_bytes(), ExtenderConfig, str(tmp_path)) == ExtenderConfig()
