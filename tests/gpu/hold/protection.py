# SPDX-License-Identifier: Apache-2.0
"""protection.py [--driver FILE]: what a driver makes of device memory of another process that is
mapped for reading alone, and what becomes of memory that is known by a descriptor alone. Asks the
driver itself, without Tenure. One GPU.

Three processes: one makes the memory and hands out its descriptor; this one keeps the descriptor,
and never calls the driver; readers, one for each question, import it. Prints a line for each
question, and exits with 0 if all could be asked.

  granted      the driver maps for reading alone, and says so when it is asked
  read         a reader sees what the creator wrote
  memset, copy, store, atomic
               a reader writes in this way: "refused" with the error, or "WRITTEN"
  raised       a reader makes its own mapping writable: "refused", or "WRITTEN"
  exported     a reader exports what it has imported
  kept         the creator is killed; the descriptor alone has kept the memory
"""
import argparse
import array
import ctypes
import os
import signal
import socket
import subprocess
import sys

BYTES, READ, READWRITE, FIRST, OTHER = 4 << 20, 1, 3, 0x11111111, 0x5A5A5A5A
WRITES = ("memset", "copy", "store", "atomic", "raised")
KERNELS = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 to) {
    .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [to]; mov.b32 %v, 0x5a5a5a5a; st.global.u32 [%a], %v; ret;
}
.visible .entry atomic(.param .u64 to) {
    .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [to]; mov.b32 %v, 0x5a5a5a5a; atom.global.exch.b32 %v, [%a], %v; ret;
}
\0"""
cuda = None


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("security", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


def check(result, what):
    if result != 0:
        raise RuntimeError(f"{what}: the driver said {result}")


def start(driver):
    global cuda
    cuda = ctypes.CDLL(driver)
    check(cuda.cuInit(0), "cuInit")
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def reserve(hint):
    at = ctypes.c_ulonglong()
    check(cuda.cuMemAddressReserve(ctypes.byref(at), ctypes.c_size_t(BYTES), ctypes.c_size_t(0),
                                   ctypes.c_ulonglong(hint), ctypes.c_ulonglong(0)), "reserve")
    return at.value


def access(at, flags):
    wanted = Access(Location(1, 0), flags)
    return cuda.cuMemSetAccess(ctypes.c_ulonglong(at), ctypes.c_size_t(BYTES),
                               ctypes.byref(wanted), ctypes.c_size_t(1))


def place(at, handle):
    check(cuda.cuMemMap(ctypes.c_ulonglong(at), ctypes.c_size_t(BYTES), ctypes.c_size_t(0), handle,
                        ctypes.c_ulonglong(0)), "cuMemMap")


def look(at):
    word = ctypes.c_uint()
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    check(cuda.cuMemcpyDtoH_v2(ctypes.byref(word), ctypes.c_ulonglong(at), ctypes.c_size_t(4)),
          "cuMemcpyDtoH")
    return word.value


def fill(at, value):
    return cuda.cuMemsetD32_v2(ctypes.c_ulonglong(at), ctypes.c_uint(value),
                               ctypes.c_size_t(BYTES // 4)) or cuda.cuCtxSynchronize()


def export(handle):
    file = ctypes.c_int()
    return cuda.cuMemExportToShareableHandle(ctypes.byref(file), handle, 1,
                                             ctypes.c_ulonglong(0)), file.value


def kernel(name, at):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    result = cuda.cuModuleLoadData(ctypes.byref(module), KERNELS)
    if result != 0:
        return f"not asked: no kernel to be had ({result})"
    result = cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    if result != 0:
        return f"not asked: no kernel to be had ({result})"
    to = ctypes.c_ulonglong(at)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(to))
    return cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments,
                               None) or cuda.cuCtxSynchronize()


# ---- the creator --------------------------------------------------------------------------------


def create(driver, control):
    start(driver)
    handle, properties = ctypes.c_ulonglong(), Properties(1, 1, Location(1, 0))
    check(cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(BYTES), ctypes.byref(properties),
                           ctypes.c_ulonglong(0)), "cuMemCreate")
    at = reserve(0)
    place(at, handle)
    check(access(at, READWRITE), "cuMemSetAccess")
    check(fill(at, FIRST), "fill")
    result, file = export(handle)
    check(result, "cuMemExportToShareableHandle")
    socket.send_fds(control, [at.to_bytes(8, "little")], [file])
    os.close(file)
    while control.recv(1):
        word = look(at)
        check(fill(at, FIRST), "fill")
        control.send(word.to_bytes(4, "little"))


# ---- a reader -----------------------------------------------------------------------------------


def question(what, at, handle):
    """The answer to one question, as a line."""
    if what == "granted":
        flags = ctypes.c_ulonglong()
        place_of = Location(1, 0)
        check(cuda.cuMemGetAccess(ctypes.byref(flags), ctypes.byref(place_of),
                                  ctypes.c_ulonglong(at)), "cuMemGetAccess")
        return {READ: "yes", READWRITE: "NO: it is writable"}.get(flags.value, str(flags.value))
    if what in ("read", "kept"):
        return "yes" if look(at) == FIRST else "NO"
    if what == "exported":
        return str(export(handle)[0] or "yes")
    if what == "memset":
        return fill(at, OTHER)
    if what == "copy":
        word = array.array("I", [OTHER])
        return cuda.cuMemcpyHtoD_v2(ctypes.c_ulonglong(at), ctypes.c_void_p(word.buffer_info()[0]),
                                    ctypes.c_size_t(4)) or cuda.cuCtxSynchronize()
    if what == "raised":
        return access(at, READWRITE) or fill(at, OTHER)
    return kernel(what, at)


def read(driver, file, there, what):
    start(driver)
    handle = ctypes.c_ulonglong()
    check(cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(file), 1),
          "cuMemImportFromShareableHandle")
    at = reserve(there)
    place(at, handle)
    result = access(at, READ)
    if result != 0:
        print(f"refused: the driver said {result}")
        return
    answer = question(what, at, handle)
    print(f"error {answer}" if isinstance(answer, int) else answer,
          "" if at == there else "(at another address)")


# ---- asking -------------------------------------------------------------------------------------


def ask(driver, file, there, what):
    done = subprocess.run([sys.executable, "-B", __file__, "--driver", driver, "--read", str(file),
                           str(there), what], pass_fds=[file], capture_output=True, text=True,
                          timeout=120, check=False)
    return done.stdout.strip() or f"FAILED ({done.returncode}): {done.stderr.strip()[-300:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="libcuda.so.1")
    parser.add_argument("--create", type=int)
    parser.add_argument("--read", nargs=3)
    options = parser.parse_args()
    if options.create is not None:
        create(options.driver, socket.socket(fileno=options.create))
        return 0
    if options.read is not None:
        read(options.driver, int(options.read[0]), int(options.read[1]), options.read[2])
        return 0
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    creator = subprocess.Popen([sys.executable, "-B", __file__, "--driver", options.driver,
                                "--create", str(far.fileno())], pass_fds=[far.fileno()])
    far.close()
    said, files, _, _ = socket.recv_fds(near, 8, 1)
    there, all_asked = int.from_bytes(said, "little"), True
    for what in ("granted", "read", *WRITES, "exported"):
        answer = ask(options.driver, files[0], there, what)
        if what in WRITES:
            near.send(b"?")
            word = int.from_bytes(near.recv(4), "little")
            answer = f"{'unchanged' if word == FIRST else 'WRITTEN'}: {answer}"
        all_asked = all_asked and "FAILED" not in answer
        print(f"{what:9} {answer}", flush=True)
    creator.send_signal(signal.SIGKILL)
    creator.wait()
    answer = ask(options.driver, files[0], there, "kept")
    print(f"{'kept':9} {answer}")
    return 0 if all_asked and "FAILED" not in answer else 1


sys.exit(main())
