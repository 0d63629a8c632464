"""The reference names all that there is, nothing else, and stands in docs as the code has it."""

from dataclasses import fields

from gpuyard.dcgm_exporter.labels import Switches, read_switches
from gpuyard.status_updater.updater import REASONS

from tests.mock import reference


def test_the_page_is_what_the_code_says() -> None:
    assert reference.PAGE.read_text() == reference.page(), "write it anew: python -m tests.mock.reference"


def test_every_key_has_its_meaning() -> None:
    assert reference.KEYS.keys() == reference.keys().keys()


def test_every_label_of_a_series_has_its_meaning() -> None:
    assert reference.SERIES.keys() == reference.series_labels().keys()


def test_every_event_has_its_meaning() -> None:
    assert reference.EVENTS.keys() == REASONS


def test_every_value_of_every_switch_is_one_that_the_exporter_takes() -> None:
    assert len(reference.SWITCHES) == len(fields(Switches))
    for key, (values, _) in reference.SWITCHES.items():
        assert read_switches({key: values.split(", ")[0]}) == Switches()
        for value in values.split(", "):
            read_switches({key: value})
