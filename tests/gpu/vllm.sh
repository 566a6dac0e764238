#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# vLLM's own tests of its CuMemAllocator, with tenure.vllm.CuMemAllocator in its place, where the
# plug-in puts it. vLLM need not be installed: the tests run beside the files of its package
# device_allocator, and beside stand-ins for what those take from the rest (vllm/standins.py). Tests
# that load a model are skipped.
#
#   tests/gpu/vllm.sh SOURCES [options of pytest]
#
# SOURCES is a checkout of github.com/vllm-project/vllm, in a folder that git ignores.
#
# TENURE=/path/to/tenure chooses the command; the Python module lies in ../python beside its folder,
# or where TENURE_PYTHON says. PYTHON chooses another interpreter.
# Exit codes: pytest's; 2 bad options; 77 no GPU, no PyTorch, no pytest, or no sources.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_tenure
require_gpu
find_python
unset TENURE_DRIVER
sources=${1:-}
[ -n "$sources" ] || skip "name a checkout of vLLM"
shift
tests=$(find "$sources/tests/basic_correctness" -name test_cumem.py 2>/dev/null | sort)
[ -n "$tests" ] || skip "$sources has no tests/basic_correctness/test_cumem.py"
require_modules torch pytest

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tests take their helpers from a package above them.
mkdir "$work/tests"
cp -r "$sources/tests/basic_correctness" "$work/tests/"
find "$work/tests" -name conftest.py -delete
find "$work/tests" -type d -exec touch {}/__init__.py \;
cp "$repository/tests/gpu/vllm/standins.py" "$work/"
echo 'from standins import create_new_process_for_each_test' > "$work/tests/utils.py"
cd "$work/tests/basic_correctness" # what follows names its tests from here
files=$(find . -name test_cumem.py | sort)
# shellcheck disable=SC2086 # names without blanks
VLLM_SOURCES=$sources PYTHONPATH=$work:$PYTHONPATH "$python" -m pytest -q -rA -p standins \
    -p no:cacheprovider $files "$@"
