"""`python -m perf.sim`, which `switchboard sim` starts."""

from __future__ import annotations

import sys

from perf.sim.command import main

sys.exit(main())
