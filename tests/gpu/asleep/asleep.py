# SPDX-License-Identifier: Apache-2.0
"""A program with weights, a cache and 40 captured graphs (served.py), put to sleep and woken by
`tenure ctl` from this process, and in each tenth cycle from another view of the folder.

  asleep.py --tenure FILE [--engine torch|driver] [--driver FILE] [--cycles N] [--json FILE] [...]

A line for each measure: whether it is so, what it is, the number, the target. Device memory is
seen from here, with cuMemGetInfo, less what was used before the program began:

  context, modules, graphs   what each step took beside Tenure's chunks: this stays
  Tenure asleep              reserved_bytes of all pools, as `tenure ctl sleep` answers
  process asleep             what the process holds asleep, of what it holds awake less Tenure's
                             chunks, with all modules loaded and graphs instantiated
  wake                       of kept weights, from inside: the seconds that the same bytes take from
                             pinned memory to the device, divided by those of the wake; with all
                             contents in pinned memory, and with a bound on that
  cycles                     with frees and allocations between and during sleeps of all, or of the
                             tags alone: the outputs of all graphs are the same bytes as before

With PyTorch the same program is run once more with PyTorch's own allocator, and what it holds
less its segments is told, for comparison. With --engine driver the program is one without
PyTorch, which the simulated device runs, too; times are judged on a GPU alone.

Exit codes: 0 all is so; 1 not so; 77 no GPU, or no PyTorch.
"""
import argparse
import json
import os
import sys
import tempfile

from ruled import MIB, Control, Device, Served

ASLEEP_MAX, PROCESS_MAX, LINK_MIN = 16 * MIB, 1.02, 0.9
TAGS = "graphs,weights,kv_cache"
STEPS = ("context", "memory", "modules", "graphs")


class Table:
    """What is printed, and kept for --json."""

    def __init__(self):
        self.rows, self.is_good = [], True

    def row(self, what, text, number, is_so=None, target=""):
        self.rows.append({"what": what, "number": number, "is_so": is_so})
        self.is_good = self.is_good and is_so is not False
        word = {None: "  ", True: "ok", False: "NO"}[is_so]
        print(f"{word}  {what:44} {text:>14}  {target}", flush=True)

    def mib(self, what, count, is_so=None, target=""):
        self.row(what, f"{count / MIB:.1f} MiB", count, is_so, target)


def begin(device, served, table):
    """Runs the program up to its graphs; returns what it holds then, less the allocator's chunks,
    and what its outputs are. The parts are told unless ``table`` is null."""
    before, outputs = 0, None
    for step in STEPS:
        reserved = served.ask(step)
        if step == "graphs":
            outputs = served.ask("outputs")
        base = device.used() - reserved
        if table:
            table.mib({"memory": "kernels that fill memory"}.get(step, step) + ", beside chunks",
                      base - before)
        before = base
    if table:
        table.mib("chunks of Tenure's, awake", reserved)
    return base, outputs


def residue(device, served, control, base, table):
    """Everything asleep."""
    devices = control.do("sleep", "--keep-backing")
    tenure = sum(each["reserved_bytes"] for each in devices)
    asleep = sum(each["asleep_bytes"] for each in devices)
    held = device.used()
    control.do("wake")
    served.ask("refill")
    table.mib("given back", asleep, asleep > 0, "more than nothing")
    table.mib("Tenure asleep", tenure, tenure <= ASLEEP_MAX, f"at most {ASLEEP_MAX // MIB} MiB")
    table.mib("process asleep", held)
    table.mib("process awake, less chunks", base)
    share = held / base if base > 0 else 1.0 + held
    table.row("process asleep / awake less chunks", f"{share:.4f}", share, share <= PROCESS_MAX,
              f"at most {PROCESS_MAX}")


def wakes(served, bound, rounds, is_judged, table):
    for pinned in (0, bound):
        said = served.ask("nap", pinned=pinned, rounds=rounds)
        link = served.ask("link", count=said["bytes"], rounds=rounds)
        share = link / said["wake"]
        name = f"pinned memory of {pinned // MIB} MiB" if pinned else "no bound"
        rate = said["bytes"] / said["wake"] / 1e9
        table.row(f"wake / pinned link, {name}", f"{share:.3f}", share,
                  share >= LINK_MIN if is_judged else None,
                  f"at least {LINK_MIN} ({said['bytes'] / 1e9:.1f} GB, {rate:.1f} GB/s; "
                  f"sleep {said['bytes'] / said['sleep'] / 1e9:.1f} GB/s)")


def cycle(served, control, number, is_other, lost):
    """Returns how many contents were wrong."""
    is_all = number % 2 == 0
    tags = [] if is_all else ["--tag", TAGS]
    wrong = served.ask("churn", seed=3 * number, sleeping="")
    devices = control.do("sleep", *tags, *lost, is_other=is_other)
    if is_all and sum(each["reserved_bytes"] for each in devices) > ASLEEP_MAX:
        wrong += 1
    wrong += served.ask("churn", seed=3 * number + 1, sleeping="all" if is_all else "tags")
    control.do("wake", *tags, is_other=is_other)
    served.ask("refill")
    return wrong + served.ask("churn", seed=3 * number + 2, sleeping="")


def cycles(served, control, outputs, options, table):
    count, lost = options.cycles, ["--content", "discard"] if options.lose else []
    unequal, wrong, others = 0, 0, 0
    for number in range(count):
        is_other = (number % 10 == 9 or number == count - 1) and control.other is not None
        wrong += cycle(served, control, number, is_other, lost)
        unequal += served.ask("outputs") != outputs
        others += is_other
    table.row(f"outputs unequal, of {count} cycles", str(unequal), unequal, unequal == 0, "0")
    table.row("blocks with wrong contents", str(wrong), wrong, wrong == 0, "0")
    table.row("cycles from another view of the folder", str(others), others,
              None if control.other is None else others > 0,
              "" if control.other else f"not tried: {control.why}")


def options_read():
    parser = argparse.ArgumentParser(description="What a program holds asleep, and how it wakes.")
    parser.add_argument("--tenure", required=True, help="the command")
    parser.add_argument("--engine", choices=("torch", "driver"), default="torch")
    parser.add_argument("--driver", default="libcuda.so.1", help="the driver's library")
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="of each time, default 5")
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--layers", type=int, default=20, help="PyTorch: 400 MB each at width 4096")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--context", type=int, default=256, help="PyTorch: of the cache")
    parser.add_argument("--weight-mib", type=int, default=200, help="driver: for each graph")
    parser.add_argument("--churn-bits", type=float, default=26, help="blocks to 2 to the power of")
    parser.add_argument("--bound-mib", type=int, default=64)
    parser.add_argument("--lose", action="store_true",
                        help="drop all contents in the cycles, which must be noticed")
    parser.add_argument("--json", help="a file for the numbers")
    return parser.parse_args()


def main():
    options = options_read()
    sizes = {name: getattr(options, name) for name in
             ("driver", "graphs", "layers", "width", "context", "weight_mib", "churn_bits")}
    is_judged = os.environ.get("TENURE_DRIVER", "cuda") == "cuda"
    device, table = Device(options.driver), Table()
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "control")
        os.mkdir(folder, 0o700)
        served = Served(folder, options.engine, **sizes)
        try:
            control = Control(options.tenure, folder, served.process)
            base, outputs = begin(device, served, table)
            residue(device, served, control, base, table)
            wakes(served, options.bound_mib * MIB, options.rounds, is_judged, table)
            cycles(served, control, outputs, options, table)
        finally:
            served.end()
        if options.engine == "torch":
            native = Served(folder, "native", **sizes)
            try:
                base, same = begin(device, native, None)
                table.mib("with PyTorch's own allocator, less segments", base)
                table.row("its outputs are the same", "yes" if same == outputs else "no", None)
            finally:
                native.end()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table.rows, file, indent=1)
    return 0 if table.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
