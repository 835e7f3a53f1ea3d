"""What the engine runs. The engine puts this directory on the path; the packages are next to it."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / below) for below in ("", "hooks")]

from infra.program import main  # noqa: E402

main()
