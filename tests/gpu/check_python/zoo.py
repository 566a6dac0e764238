# SPDX-License-Identifier: Apache-2.0
"""The zoo of errors of lifetime in Python (torch_zoo.py, cupy_zoo.py), each program and its
corrected twin under `tenure run --check`: see ../check_python.sh, which has the options and the
exit codes.

A wrong program must end with 99 and one certain finding: of the right kind, at a line of the
program, on the right stream, with the call that is missing. A twin must end with 0 and no finding
at all. Of both, allocations of the engine must have been followed, not its segments.

TENURE is the command. PYTHONPATH has the module `tenure`.
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINES = ("torch", "cupy")
FOUND = 99
MISSING = {
    "free_in_use": ("tnr_record_use({block}, stream {earlier})", "tensor.record_stream"),
    "use_after_free": ("free it after the last use",),
    "use_before_allocation": ("stream {later} must wait for stream {earlier}", "cuStreamWaitEvent"),
    "reuse_without_order": ("stream {later} must wait for stream {earlier}", "cuStreamWaitEvent"),
}


def animals_of(engine):
    """The programs of an engine, and the kinds of finding that each may have."""
    path = os.path.join(HERE, engine + "_zoo.py")
    spec = importlib.util.spec_from_file_location(engine + "_zoo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module.animals


def last_object(text):
    """The last line that is a JSON object; an empty one if none is."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                pass
    return {}


def stream_of(side):
    """A stream's handle in a finding; the default stream has several names, and is 0."""
    text = side.get("handle", "")
    number = int(text, 16) if text.startswith("0x") else 0
    return 0 if number == 1 else number


# ---- judging ------------------------------------------------------------------------------------


def wrong_of(one, path, kinds, found, told):
    """What is not as it must be with the finding of a wrong program; an empty text: nothing."""
    certain = [row for row in found if row["certain"]]
    if one["code"] != FOUND:
        return f"exit code {one['code']}, not {FOUND}"
    if len(certain) != 1:
        return f"{len(certain)} certain findings, not 1"
    row = certain[0]
    if row["kind"] not in kinds:
        return f"{row['kind']}, not {' or '.join(kinds)}"
    acts = row["earlier"] if row["kind"] == "free_in_use" else row["later"]
    if stream_of(acts) != told["handle"]:
        return f"the use is on stream {acts.get('handle')}, not {told['handle']:#x}"
    names = {"block": row["block"], "earlier": row["earlier"].get("stream"),
             "later": row["later"].get("stream")}
    for words in MISSING[row["kind"]]:
        if words.format(**names) not in row["missing"]:
            return f"\"{words.format(**names)}\" is not in what is missing: {row['missing']}"
    for side in ("earlier", "later"):
        if not any(frame.get("file") == path for frame in row[side]["stack"]):
            return f"the stack of \"{side}\" has no line of the program"
    return ""


def twin_of(one, found):
    if found:
        return f"findings: {', '.join(row['kind'] for row in found)}"
    return f"exit code {one['code']}" if one["code"] != 0 else ""


def judge(one, path, kinds, rows, out, err):
    found = [row for row in rows if "finding" in row]
    sums = next((row for row in rows if row.get("summary")), {})
    told = last_object(out)
    one.update(kinds=[row["kind"] for row in found],
               certain=sum(row["certain"] for row in found),
               missing=[row["missing"] for row in found if row["certain"]],
               launches=sums.get("launches"), launches_unread=sums.get("launches_unread"),
               followed=sums.get("allocations_followed"),
               engine_version=told.get("engine"), served=told.get("served"))
    problem = ""
    if one["code"] == "timeout":
        problem = f"it ran for more than {one['seconds']:.0f} s"
    elif not told:
        lines = [line for line in err.splitlines()
                 if line.strip() and not line.startswith("tenure")]
        problem = f"exit code {one['code']}, and no result: {lines[-1] if lines else 'no output'}"
    elif not told.get("served"):
        said = [line for line in err.splitlines() if "only segments" in line]
        problem = f"Tenure does not serve the engine: {said[0] if said else 'no reason was said'}"
    elif not one["followed"]:
        problem = "no allocation was followed"
    elif one["how"] == "wrong":
        problem = wrong_of(one, path, kinds, found, told)
    else:
        problem = twin_of(one, found)
    one.update(good=not problem, problem=problem)


# ---- running ------------------------------------------------------------------------------------


def stop(process):
    """Ends the program and all that it has started, which are a group of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(engine, path, name, how, kinds, options, until):
    one = {"engine": engine, "program": name, "how": how, "expected": list(kinds)}
    base = os.path.join(options.out, f"{engine}_{name}_{how}")
    left = min(options.timeout, until - time.monotonic())
    if left <= 0:
        return {**one, "code": None, "seconds": 0, "good": False,
                "problem": f"not run: {options.total:.0f} s are over"}
    command = [os.environ["TENURE"], "run", "--check", *options.driver, "--findings",
               base + ".findings", "--", sys.executable, "-B", path, name, how]
    began = time.monotonic()
    with open(base + ".out", "w", encoding="utf-8") as out, \
            open(base + ".err", "w", encoding="utf-8") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)
        try:
            one["code"] = process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            one["code"] = "timeout"
        finally:
            stop(process)
    one["seconds"] = round(time.monotonic() - began, 2)
    texts = []
    for kind in (".out", ".err", ".findings"):
        with open(base + kind, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    try:
        rows = [json.loads(line) for line in texts[2].splitlines()]
        judge(one, path, kinds, rows, texts[0], texts[1])
    except (ValueError, KeyError, TypeError) as error:
        one.update(good=False, problem=f"{base}.findings cannot be judged: {error!r}")
    return one


def say(one):
    if one["good"]:
        verdict = "found: " + one["kinds"][0] if one["how"] == "wrong" else "silent"
    else:
        verdict = "BAD: " + one["problem"]
    print(f"{one['engine']:<6} {one['program']:<22} {one['how']:<6} {one['seconds']:6.1f} s  "
          f"{verdict}", flush=True)


def is_installed(engine):
    return importlib.util.find_spec(engine) is not None


def prepare(engines, options, until):
    """Compiles the class for PyTorch once, not in each program."""
    if "torch" not in engines or options.driver:
        return
    left = min(options.build_timeout, until - time.monotonic())
    command = [sys.executable, "-B", "-m", "tenure.torch", "build"]
    with open(os.path.join(options.out, "torch_build.log"), "w", encoding="utf-8") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        try:
            code = process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            code = "timeout"
        finally:
            stop(process)
    print(f"tenure.torch build: exit code {code} after {time.monotonic() - began:.1f} s"
          f"{'' if code == 0 else ': the pluggable interface serves; see torch_build.log'}",
          flush=True)


def arguments():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("engines", nargs="*", help="torch, cupy; both if none is given")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--total", type=float, default=170, help="seconds for all")
    parser.add_argument("--build-timeout", type=float, default=90)
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--out", help="folder for what programs print, which is kept")
    parser.add_argument("--only", default="", help="part of the names of programs")
    parser.add_argument("--driver", choices=["cuda", "sim"], default="cuda")
    options = parser.parse_args()
    for engine in options.engines:
        if engine not in ENGINES:
            parser.error(f"no engine {engine!r}: there are {' and '.join(ENGINES)}")
    if options.jobs < 1:
        parser.error("--jobs must be 1 or more")
    options.driver = ["--driver", "sim"] if options.driver == "sim" else []
    return options


def main():
    options = arguments()
    began = time.monotonic()
    until = began + options.total
    wanted = options.engines or ENGINES
    engines = [engine for engine in wanted if is_installed(engine)]
    for engine in wanted:
        if engine not in engines:
            print(f"{engine}: SKIPPED: it is not installed for {sys.executable}")
    if not engines:
        print("skipped: neither PyTorch nor CuPy is installed" if len(wanted) > 1
              else f"skipped: {wanted[0]} is not installed")
        return 77
    if options.out:
        os.makedirs(options.out, exist_ok=True)
    else:
        options.out = tempfile.mkdtemp(prefix="check_python-")
    print(f"output of the programs: {options.out}")
    prepare(engines, options, until)
    tasks = []
    for engine in engines:
        path, animals = animals_of(engine)
        tasks += [(engine, path, name, how, kinds) for name, kinds in animals.items()
                  for how in ("wrong", "right") if options.only in name]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run, *task, options, until) for task in tasks]
        for future in concurrent.futures.as_completed(futures):
            rows.append(future.result())
            say(rows[-1])
    rows.sort(key=lambda row: (row["engine"], row["program"], row["how"]))
    bad = [row for row in rows if not row["good"]]
    seconds = time.monotonic() - began
    print(f"{len(rows)} programs, {len(bad)} not as they must be, {seconds:.1f} s")
    for row in bad:
        print(f"  {row['engine']} {row['program']} {row['how']}: {row['problem']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"programs": rows, "bad": len(bad), "seconds": round(seconds, 1),
                       "jobs": options.jobs, "simulated": bool(options.driver)}, file, indent=1)
            file.write("\n")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
