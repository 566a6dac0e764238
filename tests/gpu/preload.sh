#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What `tenure run` must show on a real GPU: programs that know nothing of Tenure give the same
# results with it and without it, their allocations are served by it, nothing is left at the end.
# A program of the CUDA runtime, linked with it statically and dynamically; a program of the driver
# that finds it in every way; and, where they are installed, PyTorch without its caching allocator,
# CuPy without its pool, and JAX with CUDA's pool (and with buffers that it maps by hand, which are
# nobody else's business).
#
#   tests/gpu/preload.sh [--json FILE]
#
# --json FILE gets one object for each program: calls, and wall times without Tenure, with it, and
# with the program's own caching allocator. TENURE=/path/to/tenure chooses the command, NVCC the
# compiler, PYTHON the interpreter. Exit codes: 0 all as it must be; 1 not; 2 bad options; 77 no
# GPU.
set -euo pipefail
# shellcheck source=tests/gpu/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

json=
while [ $# -gt 0 ]; do
    case $1 in
    --json)
        [ $# -gt 1 ] || { echo "$1 needs a file" >&2; exit 2; }
        json=$2
        shift 2
        ;;
    *)
        echo "unknown option: $1" >&2
        exit 2
        ;;
    esac
done
find_tenure
require_gpu
sources=$(dirname "${BASH_SOURCE[0]}")/preload
engine=${PRELOAD_ENGINE:-$(dirname "$tenure")/../tests/preload_engine}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
python=${PYTHON:-python3}
unset TENURE_DRIVER LD_PRELOAD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
worst=0
[ -z "$json" ] || : >"$json"

seconds() {
    awk -v began="$1" -v ended="$2" 'BEGIN { printf "%.3f", ended - began }'
}

# The number of a key in a line of --json.
number() {
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" <<<"$2" | tail -n 1
}

# What the program leaves behind by itself: run with everything passed on to the driver, because
# Tenure finds no driver of its own.
left_by_itself() {
    local line
    TENURE_DRIVER=/no/driver.so "$tenure" run --json -- "$@" \
        >/dev/null 2>"$work/control.err" || true
    line=$(grep '^{"pid"' "$work/control.err" | sort -t: -k4 -n | tail -n 1 || true)
    echo $(($(number allocations_passed_on "$line") - $(number frees_passed_on "$line")))
}

# check NAME LEAST-SERVED COMMAND...: without, with, and compares. `own` may hold a command of its
# own caching allocator, for the time alone; `maps` is set for programs that may map their buffers
# themselves (cuMemCreate), which leaves few calls or none to serve.
own=()
maps=false
check() {
    local name=$1 least=$2 began plain_s tenure_s own_s=null line served passed live left
    local problem='' good=true remark='same results' handles
    shift 2
    began=$(date +%s.%N)
    if ! "$@" >"$work/plain.out" 2>"$work/plain.err"; then
        echo "$name: SKIPPED: it does not run without Tenure: $(tail -n 1 "$work/plain.err")"
        return
    fi
    plain_s=$(seconds "$began" "$(date +%s.%N)")
    began=$(date +%s.%N)
    "$tenure" run --json -- "$@" >"$work/tenure.out" 2>"$work/tenure.err" || problem="exit code $?"
    tenure_s=$(seconds "$began" "$(date +%s.%N)")
    if [ ${#own[@]} -gt 0 ]; then
        began=$(date +%s.%N)
        "${own[@]}" >/dev/null 2>&1 && own_s=$(seconds "$began" "$(date +%s.%N)")
    fi
    own=()
    line=$(grep '^{"pid"' "$work/tenure.err" | sort -t: -k3 -n | tail -n 1 || true)
    served=$(number allocations_served "$line")
    passed=$(number allocations_passed_on "$line")
    live=$(number live_blocks "$line")
    handles=$(number handles_passed_on "$line")
    if $maps && [ "${served:-0}" -lt "$least" ] && [ "${handles:-0}" -gt 0 ]; then
        remark="same results; buffers mapped by the program itself: $handles handles"
        least=0
    fi
    if [ -z "$problem" ] && ! cmp -s "$work/plain.out" "$work/tenure.out"; then
        problem="other results"
        "$@" >"$work/again.out" 2>/dev/null || true
        cmp -s "$work/plain.out" "$work/again.out" ||
            problem="other results, but so has a second run without Tenure"
    fi
    [ -n "$problem" ] || [ "${served:-0}" -ge "$least" ] ||
        problem="only ${served:-0} calls served"
    left=${live:-0}
    if [ -z "$problem" ] && [ "$left" -gt 0 ]; then
        left=$(left_by_itself "$@")
        [ "$left" -eq "$live" ] || problem="$live blocks left, $left without Tenure"
    fi
    printf '%-20s %6s served %4s passed on %4s live at the end (%s by itself); ' \
        "$name" "${served:--}" "${passed:--}" "${live:--}" "$left"
    echo "$plain_s s without, $tenure_s s with, $own_s s own: ${problem:-$remark}"
    grep -E '^(seconds|cudaMalloc and)' "$work/plain.err" | sed 's/^/    without: /' || true
    grep -E '^(seconds|cudaMalloc and|tenure:)' "$work/tenure.err" |
        sed 's/^/    with:    /' || true
    if [ -n "$problem" ]; then
        worst=1
        diff "$work/plain.out" "$work/tenure.out" | head -n 10 || true
        tail -n 15 "$work/tenure.err"
    fi
    [ -z "$problem" ] || good=false
    [ -z "$json" ] || printf '{"program": "%s", "good": %s, "calls": %s, %s}\n' \
        "$name" "$good" "${line:-null}" \
        "\"seconds_without\": $plain_s, \"seconds_with\": $tenure_s, \"seconds_own\": $own_s" \
        >>"$json"
}

if [ -x "$engine" ]; then
    for scenario in basic attributes async order pressure threads capture capture_plain update \
        storm; do
        for way in dlsym dlsym-thread lookup1 lookup2 lookup2-thread; do
            check "$scenario/$way" 2 "$engine" "$way" "$scenario"
        done
    done
    # Memory that is allocated inside: the driver alone refuses that update.
    if "$tenure" run -- "$engine" lookup2 update_inside >"$work/inside.out" 2>&1; then
        echo "update_inside: good"
    else
        worst=1
        echo "update_inside: WRONG"
        tail -n 5 "$work/inside.out"
    fi
    # Between processes: not compared, as the driver's own handles stand for other memory.
    if "$tenure" run -- "$engine" lookup2 share >"$work/share.out" 2>&1; then
        echo "share: good"
    else
        worst=1
        echo "share: WRONG"
        tail -n 5 "$work/share.out"
    fi
else
    echo "engine: SKIPPED: $engine was not found: build the tests, or set PRELOAD_ENGINE"
fi
if [ -x "$nvcc" ]; then
    for linked in static shared; do
        "$nvcc" -std=c++17 -O2 -cudart "$linked" -o "$work/runtime_$linked" "$sources/runtime.cu"
        LD_LIBRARY_PATH=$(dirname "$nvcc")/../lib64:${LD_LIBRARY_PATH:-} \
            check "cudart_$linked" 800 "$work/runtime_$linked"
    done
else
    echo "cudart: SKIPPED: no nvcc"
fi
own=(env CUBLAS_WORKSPACE_CONFIG=:4096:8 "$python" "$sources/torch_uncached.py")
check torch 1000 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 CUBLAS_WORKSPACE_CONFIG=:4096:8 \
    "$python" "$sources/torch_uncached.py"
own=("$python" "$sources/cupy_program.py" --pool)
check cupy 500 "$python" "$sources/cupy_program.py"
# With `address`, and with `platform`, JAX maps its buffers by hand (since 2026), so that there is
# nothing to serve: only that it is not disturbed. Bits must not depend on what is tuned.
xla='--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0'
for allocator in address cuda_async; do
    maps=false
    [ "$allocator" = cuda_async ] || maps=true
    own=(env XLA_FLAGS="$xla" "$python" "$sources/jax_program.py")
    check "jax/$allocator" 50 env XLA_FLAGS="$xla" XLA_PYTHON_CLIENT_ALLOCATOR="$allocator" \
        "$python" "$sources/jax_program.py"
done
exit "$worst"
