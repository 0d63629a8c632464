"""`python -m gpuyard.extender`, as of a version in which the setting `verdict.ttl` was removed."""

from typing import cast

from gpuyard.engine.model.settings import REMOVED, Removed
from gpuyard.extender.__main__ import main

if __name__ == "__main__":
    cast("dict[str, Removed]", REMOVED)["verdict.ttl"] = Removed("nothing is needed", "9.9")
    main()
