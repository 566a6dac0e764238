#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What `tenure run --waste` costs: training steps of GPT-2, and launches, of PyTorch with Tenure,
# bare and under it, in turns. Fails where a step takes more than 1.05 of the bare one's time.
#
#   tests/gpu/waste.sh [--rounds N] [--processes N] [--steps N] [--json FILE]
#
# Variables, and exit codes, are those of check_cost.sh.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/check_cost.sh" --ways bare,waste "$@"
