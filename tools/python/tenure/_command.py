# SPDX-License-Identifier: Apache-2.0
"""The command ``tenure`` of an installed wheel: replaces itself by bin/tenure of this package."""
from __future__ import annotations

import os
import sys


def main() -> int:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenure")
    try:
        os.execv(program, [program] + sys.argv[1:])
    except OSError as error:
        print(f"tenure: {program}: {error.strerror}. Install the wheel again.", file=sys.stderr)
    return 126


if __name__ == "__main__":
    sys.exit(main())
