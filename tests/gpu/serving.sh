#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A small serving engine (continuous batching, a paged cache, decoding by 40 captured graphs, eager
# prefill, random weights) with PyTorch's own allocator, its expandable segments and Tenure: the
# largest batch within 20 GiB, tokens/s, and with Tenure asleep and awake in the middle of requests.
#
#   tests/gpu/serving.sh [--gib N] [--seconds N] [--rounds N] [--json FILE] [...; --help]
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no GPU, or no PyTorch.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_tenure
require_gpu
find_python
unset TENURE_DRIVER
exec "$python" -B "$repository/tests/gpu/serving/serving.py" "$@"
