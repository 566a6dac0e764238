#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# torch_memory_saver's own tests with tenure.memory_saver in its place: its examples are run as they
# are, and see Tenure's module under its name. What its tests take from files of its package that
# are no part of the interface (testing_utils, utils) comes from its sources.
#
#   tests/gpu/memory_saver.sh SOURCES [options of pytest]
#
# SOURCES is a checkout of github.com/fzyzcjy/torch_memory_saver, in a folder that git ignores.
# cuda_vmm_granularity passes without saying much of Tenure: it takes its memory from cudaMalloc,
# which Tenure does not pause.
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
[ -n "$sources" ] || skip "name a checkout of torch_memory_saver"
shift
[ -e "$sources/test/test_examples.py" ] || skip "$sources has no test/test_examples.py"
require_modules torch pytest

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/torch_memory_saver"
module=$("$python" -c 'import tenure.memory_saver as m; print(m._MODULES)')
cp "$module/torch_memory_saver/__init__.py" "$work/torch_memory_saver/"
cp "$sources"/torch_memory_saver/{testing_utils,utils}.py "$work/torch_memory_saver/"
cp -r "$sources/test" "$work/test"

# Every Python below, those that the tests spawn too, has Tenure under PyTorch and the module first.
eval "$("$python" - "$work" <<'END'
import shlex, sys
import tenure.memory_saver
for name, value in tenure.memory_saver.environment().items():
    if name == "PYTHONPATH":
        value = f"{sys.argv[1]}:{value}"
    print(f"export {name}={shlex.quote(value)}")
END
)"
cd "$work/test"
"$python" -m pytest -q -rA -p no:cacheprovider test_examples.py "$@"
