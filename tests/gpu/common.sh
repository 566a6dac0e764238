# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts here share: finding the command, and skipping where there is no GPU.
#
# TENURE names the command; without it, the newest of the usual build folders is taken.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

skip() {
    echo "skipped: $*"
    exit 77
}

# Sets `tenure` to the command's path.
find_tenure() {
    tenure=${TENURE:-}
    if [ -z "$tenure" ]; then
        # shellcheck disable=SC2012
        tenure=$(ls -t "$repository"/build*/bin/tenure 2>/dev/null | head -n 1 || true)
    fi
    if [ -z "$tenure" ] || [ ! -x "$tenure" ]; then
        echo "the tenure command was not found: build it, or set TENURE=/path/to/tenure" >&2
        exit 2
    fi
}

# Sets `bench` to the program with all benchmarks, which is built beside the command: after
# find_tenure. BENCH names another.
find_bench() {
    bench=${BENCH:-$(dirname "$tenure")/../tests/bench_sections}
    if [ ! -x "$bench" ]; then
        echo "the program bench_sections was not found: build it, or set BENCH=/path/to/it" >&2
        exit 2
    fi
}

# Ends the script with 77 unless the command can use a real GPU.
require_gpu() {
    local report
    if ! report=$("$tenure" doctor --driver cuda 2>&1); then
        skip "no GPU that Tenure can use: $(sed -n '/^Missing/,$p' <<<"$report" | sed -n 2p)"
    fi
}

# Ends the script with 77 unless there are so many GPUs.
require_gpus() { # count
    local gpus
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
    [ "$gpus" -ge "$1" ] || skip "$1 GPUs are needed, and there are $gpus"
}

# Ends the script with 77 unless the interpreter has these modules. After find_python.
require_modules() { # names
    local module
    for module in "$@"; do
        "$python" -c "import $module" 2>/dev/null || skip "$python has no $module"
    done
}

# Sets `python` to the interpreter, and PYTHONPATH so that it finds the module `tenure`, which lies
# in ../python beside the command's folder, or where TENURE_PYTHON says. After find_tenure.
find_python() {
    local module=${TENURE_PYTHON:-$(dirname "$tenure")/../python}
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || skip "there is no $python"
    if [ ! -e "$module/tenure/__init__.py" ]; then
        echo "the Python module is not in $module: build it, or set TENURE_PYTHON" >&2
        exit 2
    fi
    module=$(realpath "$module")
    export PYTHONPATH=$module${PYTHONPATH:+:$PYTHONPATH}
}
