#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Python engines with Tenure as their allocator: PyTorch against its own allocator and expandable
# segments (engines/engines_torch.py), CuPy against its own pool (engines/engines_cupy.py).
#
#   tests/gpu/engines.sh torch|cupy [options of that program; --help has them]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or no such engine.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

engine=${1:-}
case $engine in
torch | cupy) shift ;;
*)
    echo "engines.sh torch|cupy [options]" >&2
    exit 2
    ;;
esac
python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
program=$repository/tests/gpu/engines/engines_$engine.py
for option in "$@"; do
    if [ "$option" = --help ]; then exec "$python" -B "$program" --help; fi
done
find_tenure
require_gpu

find_python
unset TENURE_DRIVER
commit=$("$tenure" --version | sed -n 's/.*(\([^)]*\)).*/\1/p')
exec "$python" -B "$program" --commit "$commit" "$@"
