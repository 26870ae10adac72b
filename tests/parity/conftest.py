"""Commands with a state folder of their own, as the live tests have them."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

LIVE = Path(__file__).parents[1] / "live"
sys.path.append(str(LIVE))
_spec = spec_from_file_location("live_conftest", LIVE / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)
site = _module.site
