#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# How long a control group is above its soft limit of device memory after the limit has fallen
# (elastic/soft_limit.py), on a GPU.
#
#   tests/gpu/soft_limit.sh [FALLS]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 never longer than 50 ms; 1 longer; 77 no GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
find_python
unset TENURE_DRIVER TENURE_CONF
"$python" -B "$repository/tests/gpu/elastic/soft_limit.py" "$@"
