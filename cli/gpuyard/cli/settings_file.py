"""`gpuyard doctor`: does the extender take its settings as they are written?"""

from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.live import CONFIG, FILE
from gpuyard.cli.patient import Patient
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.settings import SettingsError, parse

TAKEN = "the extender's settings are in force"
_ORIGIN = f"{CONFIG.about}, {FILE}"


async def taken(patient: Patient) -> list[Finding]:
    """Whether the settings can be used, and which of them this version no longer has."""
    held = await patient.get(CONFIG)
    if held is None:
        return []
    old: list[Finding] = []
    try:
        text = (held.get("data") or {}).get(FILE, "")
        parse(text.encode(), ExtenderConfig, _ORIGIN, lambda told: old.append(_removed(told)))
    except SettingsError as error:
        seen = f"{error}; the last good settings stay in force, and no extender starts with these"
        return [Finding(TAKEN, Status.FAIL, seen, "mend it; docs/settings.md has every setting")]
    return old or [Finding(TAKEN, Status.OK, _ORIGIN)]


def _removed(told: str) -> Finding:
    return Finding(TAKEN, Status.WARN, told, "take it out of the settings")
