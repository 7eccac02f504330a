"""What all commands share: a person's mistake ends as one line on stderr and exit code 2, never as a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from builders.errors import UserError


def run(main: Callable[[], int]) -> None:
    """Runs a command and exits with its code; 2 for bad input, 130 when interrupted."""
    try:
        code = main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        code = 130
    sys.exit(code)
