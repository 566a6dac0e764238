# SPDX-License-Identifier: Apache-2.0
"""Takes a program with weights, a cache and graphs (served.py) off the device and brings it back,
by the driver's process checkpoints, from this process.

  checkpoint.py --tenure FILE [--engine torch|driver] [--driver FILE] [--json FILE] [...]

Each case is a program of its own, which is locked, checkpointed, restored and unlocked:

  native          PyTorch's own allocator: what the driver can do at all (with --engine torch)
  awake           Tenure
  asleep          after `tenure ctl sleep`, which the program is woken from afterwards
  dropped         the same with --content discard; the program loads its weights again
  ..., no export  the same with handle_type:none: memory that no other process can be given

Its line says how long each step took, what the device and the host had in between, whether `tenure
ctl status` was answered meanwhile, and whether all graphs give the same bytes afterwards; or which
call the driver refused, with its error.

Exit codes: 0 what the driver took came back right; 1 something did not; 77 there is no such driver,
or it took none of them.
"""
import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from ruled import MIB, Control, Device, Served, skip

CALLS = ("Lock", "Checkpoint", "Restore", "Unlock")
LOCK_MS, BACK_S = 20000, 60
CASES = (("native", "native", None, ""),
         ("awake", None, None, ""),
         ("asleep", None, [], ""),
         ("dropped", None, ["--content", "discard"], ""),
         ("awake, no export", None, None, "handle_type:none"),
         ("asleep, no export", None, [], "handle_type:none"),
         ("dropped, no export", None, ["--content", "discard"], "handle_type:none"))


class LockArguments(ctypes.Structure):
    """CUcheckpointLockArgs."""

    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint),
                ("reserved1", ctypes.c_uint64 * 7)]


class Checkpoints:
    """The driver's calls. A null pointer for the arguments of all but the first means none."""

    answer_s = 5

    def __init__(self, gpu):
        self.gpu = gpu
        for call in CALLS:
            if not hasattr(gpu, "cuCheckpointProcess" + call):
                skip(f"the driver has no cuCheckpointProcess{call} (CUDA 12.8 has)")

    def do(self, call, pid):
        """Null, or the driver's error."""
        arguments = ctypes.byref(LockArguments(LOCK_MS)) if call == "Lock" else None
        code = getattr(self.gpu, "cuCheckpointProcess" + call)(pid, arguments)
        name = ctypes.c_char_p()
        if code != 0 and self.gpu.cuGetErrorName(code, ctypes.byref(name)) != 0:
            return f"error {code}"
        return name.value.decode() if code != 0 else None


class StandIn:
    """For a test of this program without such a driver: stops the process and lets it go on."""

    answer_s = 0.5
    SIGNALS = {"Lock": signal.SIGSTOP, "Unlock": signal.SIGCONT}

    def __init__(self, refused):
        self.refused = refused

    def do(self, call, pid):
        if call == self.refused:
            return "CUDA_ERROR_NOT_SUPPORTED"
        if call in self.SIGNALS:
            os.kill(pid, self.SIGNALS[call])
        return None


def host_bytes(pid):
    """What a process has of the host's memory."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answers(control, seconds):
    """Whether the program answers while it is off the device."""
    try:
        control.do("status", seconds=seconds)
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True


def go_round(checkpoints, device, served, control, row):
    """Off the device and on again; what happened is in ``row``."""
    row["device_before"], row["host_before"] = device.used(), host_bytes(served.pid)
    for call in CALLS:
        began = time.monotonic()
        error = checkpoints.do(call, served.pid)
        row[call] = time.monotonic() - began
        if error:
            row["refused"] = f"cuCheckpointProcess{call}: {error}"
            if call == "Checkpoint":
                checkpoints.do("Unlock", served.pid)
            return False
        if call == "Checkpoint":
            row["device_off"], row["host_off"] = device.used(), host_bytes(served.pid)
            if control:
                row["answers"] = answers(control, checkpoints.answer_s)
    return True


def come_back(served, control, arguments, outputs, is_lost):
    """Whether the program gives what it gave, after a wake if it sleeps."""
    if arguments is not None:
        control.do("wake", seconds=BACK_S)
        if not is_lost:
            served.ask("refill", seconds=BACK_S)
        if arguments:
            served.ask("load", seconds=BACK_S)
    return served.ask("outputs", seconds=BACK_S) == outputs


def try_case(options, sizes, checkpoints, device, case):
    name, engine, arguments, conf = case
    row = {"case": name}
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "control")
        os.mkdir(folder, 0o700)
        served = Served(folder, engine or options.engine, conf, **sizes)
        try:
            for step in ("context", "memory", "modules", "graphs"):
                served.ask(step)
            outputs = served.ask("outputs")
            control = None if engine else Control(options.tenure, folder, served.process)
            if arguments is not None:
                control.do("sleep", *arguments)
            row["taken"] = go_round(checkpoints, device, served, control, row)
            try:
                row["same"] = come_back(served, control, arguments, outputs, options.lose)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                row["same"], row["error"] = False, str(error)
        finally:
            served.end()
    return row


def line_of(row):
    if not row["taken"]:
        return (f"refused, {row['refused']}; afterwards the program "
                + ("goes on as before" if row["same"] else f"is lost: {row.get('error')}"))
    times = ", ".join(f"{call.lower()} {row[call]:.2f} s" for call in CALLS)
    told = {True: "; status is answered meanwhile", False: "; status is not answered meanwhile"}
    return (f"{times}; device {row['device_before'] / MIB:.0f} -> "
            f"{row['device_off'] / MIB:.0f} MiB, host {row['host_before'] / MIB:.0f} -> "
            f"{row['host_off'] / MIB:.0f} MiB{told.get(row.get('answers'), '')}; outputs "
            + ("the same" if row["same"] else f"NOT the same: {row.get('error', 'other bytes')}"))


def options_read():
    parser = argparse.ArgumentParser(description="Process checkpoints with and without sleep.")
    parser.add_argument("--tenure", required=True, help="the command")
    parser.add_argument("--engine", choices=("torch", "driver"), default="torch")
    parser.add_argument("--driver", default="libcuda.so.1", help="the driver's library")
    parser.add_argument("--only", action="append", help="one case, by name; may come again")
    parser.add_argument("--graphs", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4, help="PyTorch: 400 MB each at width 4096")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--context", type=int, default=256, help="PyTorch: of the cache")
    parser.add_argument("--weight-mib", type=int, default=200, help="driver: for each graph")
    parser.add_argument("--stand-in", metavar="CALL", nargs="?", const="none",
                        help="no driver's checkpoints but a stop; CALL is refused")
    parser.add_argument("--lose", action="store_true",
                        help="do not fill the cache after a wake, which must be noticed")
    parser.add_argument("--json", help="a file for what came of it")
    return parser.parse_args()


def main():
    options = options_read()
    sizes = {name: getattr(options, name) for name in
             ("driver", "graphs", "layers", "width", "context", "weight_mib")}
    device = Device(options.driver)
    checkpoints = StandIn(options.stand_in) if options.stand_in else Checkpoints(device.gpu)
    rows = []
    for case in CASES:
        if (options.only and case[0] not in options.only) or \
                (case[1] == "native" and options.engine != "torch"):
            continue
        rows.append(try_case(options, {**sizes, "churn_bits": 20}, checkpoints, device, case))
        print(f"{case[0]:20} {line_of(rows[-1])}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if not any(row["taken"] for row in rows):
        skip("this driver takes no process off the device: " + rows[0].get("refused", ""))
    return 0 if all(row["same"] for row in rows if row["taken"]) else 1


if __name__ == "__main__":
    sys.exit(main())
