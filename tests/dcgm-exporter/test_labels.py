"""Switches: read strictly from the ConfigMap."""

import pytest
from gpuyard.dcgm_exporter.labels import HostnameLabel, IdleLabels, SwitchError, Switches, read_switches


def test_no_switch_means_nvidias_spelling() -> None:
    assert read_switches({}) == Switches(HostnameLabel.UPPER, IdleLabels.ABSENT, old_names=False, hashed_hostname=False)


def test_every_switch_is_read() -> None:
    data = {"hostnameLabel": "both", "idleLabels": "empty", "oldNames": "true", "hashedHostname": "true"}
    assert read_switches(data) == Switches(HostnameLabel.BOTH, IdleLabels.EMPTY, old_names=True, hashed_hostname=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"hostnamelabel": "both"}, "unknown key; known here: hostnameLabel"),
        ({"hostnameLabel": "HOSTNAME"}, "write one of Hostname, hostname, both"),
        ({"oldNames": "yes"}, "write one of false, true"),
    ],
)
def test_an_unknown_switch_or_value_is_refused(data: dict[str, str], message: str) -> None:
    with pytest.raises(SwitchError, match=message):
        read_switches(data)
