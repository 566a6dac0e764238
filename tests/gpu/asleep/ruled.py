# SPDX-License-Identifier: Apache-2.0
"""What asleep.py and checkpoint.py share: the program that is ruled, the command that rules it, and
what the device has left, seen from a process that does nothing else."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import threading

MIB = 1 << 20


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Device:
    """A process's own context, in which it asks how much memory is free."""

    def __init__(self, path):
        try:
            self.gpu = ctypes.CDLL(path)
        except OSError as error:
            skip(f"there is no driver: {error}")
        context = ctypes.c_void_p()
        if self.gpu.cuInit(0) != 0 or \
                self.gpu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) != 0 or \
                self.gpu.cuCtxSetCurrent(context) != 0:
            skip("the driver gives no context on device 0")
        self.begin = self.free()

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self.gpu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) != 0:
            sys.exit("cuMemGetInfo failed")
        return free.value

    def used(self):
        """Bytes of the device that are gone since the beginning."""
        return self.begin - self.free()


class Served:
    """The program (served.py) in a process of its own."""

    def __init__(self, folder, engine, conf="", **options):
        control = f"control:on,control_dir:{folder}" + (f",{conf}" if conf else "")
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(pathlib.Path(__file__).with_name("served.py")),
             json.dumps({"engine": engine, **options})],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "TENURE_CONF": control})
        self.pid = self.process.pid

    def ask(self, what, seconds=600, **arguments):
        """Its answer. It is ended if it gives none in time: its driver may hold it for ever."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline() or "{}")
        except BrokenPipeError:
            said = {}
        finally:
            timer.cancel()
        if "lacks" in said:
            skip(said["lacks"])
        if "is" not in said:
            raise RuntimeError(f"{what}: {said.get('error', 'the program has ended')}")
        return said["is"]

    def end(self):
        self.process.kill()
        self.process.wait()


class Control:
    """tenure ctl, from here or from another view of the folder: another mount of it, in which
    processes have other numbers."""

    def __init__(self, tenure, folder, process):
        self.tenure, self.folder, self.process = tenure, folder, process
        self.other, self.why = None, ""
        view = os.path.join(os.path.dirname(folder), "view")
        os.makedirs(view, exist_ok=True)
        inside = f"mount --bind '{folder}' '{view}' && exec \"$0\" \"$@\" --dir '{view}'"
        for how in (["--user", "--map-root-user"], []):
            other = ["unshare", *how, "--mount", "--pid", "--fork", "sh", "-c", inside, tenure]
            try:
                tried = subprocess.run([*other, "ctl", "list"], capture_output=True, text=True,
                                       check=False)
            except FileNotFoundError:
                self.why = "there is no unshare"
                return
            if tried.returncode == 0:
                self.other = other
                return
            self.why = tried.stderr.strip().split("\n")[-1]

    def do(self, *arguments, is_other=False, seconds=600):
        """The answer's devices. In the other view the process has the number that it sees."""
        begin = self.other if is_other else [self.tenure]
        where = [] if is_other else ["--dir", self.folder]
        ran = subprocess.run([*begin, "ctl", *arguments, "--json", "--pid",
                              str(self.process.pid), *where],
                             capture_output=True, text=True, timeout=seconds, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"tenure ctl {' '.join(arguments)}: {ran.stderr or ran.stdout}")
        return json.loads(ran.stdout)["answer"]["devices"]
