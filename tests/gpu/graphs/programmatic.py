# SPDX-License-Identifier: Apache-2.0
"""programmatic.py: what comes after a kernel that begins early (programmatic dependent launch).

Three kernels in a stream. The first lets the next begin at once, runs on for 20 ms and then writes
a word. The second is launched to begin early, and ends at once without waiting. The third, launched
as usual, reads the word. It must find it written: in a stream, in a graph captured from it, and in
a stream that waits for an event recorded after the second. Tenure relies on that where a stream
reuses what it freed in a capture (capture/graph/order.h). Prints the edges of the graph, how long
the second took to begin, and how often the word was missing. Exit code 1 if it was.
Needs a GPU of compute capability 9.0 or later; nothing but the driver's library.
"""
import ctypes
import sys

ROUNDS = 20
PTX = b"""
.version 7.8
.target sm_90
.address_size 64
.visible .entry first(.param .u64 word, .param .u64 times) {
  .reg .u64 %w, %t, %now, %end; .reg .pred %p; .reg .u32 %one;
  ld.param.u64 %w, [word]; ld.param.u64 %t, [times];
  griddepcontrol.launch_dependents;
  mov.u64 %now, %globaltimer;
  st.global.u64 [%t], %now;
  add.u64 %end, %now, 20000000;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %p, %now, %end;
  @%p bra again;
  mov.u32 %one, 1;
  st.global.u32 [%w], %one;
  ret;
}
.visible .entry second(.param .u64 word, .param .u64 times) {
  .reg .u64 %t, %now;
  ld.param.u64 %t, [times];
  mov.u64 %now, %globaltimer;
  st.global.u64 [%t+8], %now;
  ret;
}
.visible .entry third(.param .u64 word, .param .u64 times) {
  .reg .u64 %w; .reg .u32 %is;
  ld.param.u64 %w, [word];
  ld.global.u32 %is, [%w];
  st.global.u32 [%w+4], %is;
  ret;
}
"""
EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
Pointer = ctypes.c_void_p


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int),
                ("rest", ctypes.c_char * 60)]


class Config(ctypes.Structure):
    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", Pointer),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Edge(ctypes.Structure):
    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte),
                ("type", ctypes.c_ubyte), ("reserved", ctypes.c_ubyte * 5)]


class Driver:
    """The driver's calls, which must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        def call(*values):
            error = getattr(self.library, name)(*values)
            if error != 0:
                raise RuntimeError(f"{name} failed with {error}")
        return call


class Program:
    """The three kernels, in one stream or in two."""

    def __init__(self):
        try:
            self.cuda = Driver()
            self.cuda.cuInit(0)
        except (OSError, RuntimeError) as error:
            print(f"no GPU: {error}")
            sys.exit(77)
        context, module, self.memory = Pointer(), Pointer(), ctypes.c_uint64()
        self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.cuda.cuCtxSetCurrent(context)
        try:
            self.cuda.cuModuleLoadData(ctypes.byref(module), PTX)
        except RuntimeError as error:
            print(f"no GPU of compute capability 9.0 or later: {error}")
            sys.exit(77)
        self.kernels = [Pointer() for _ in range(3)]
        for kernel, name in zip(self.kernels, (b"first", b"second", b"third")):
            self.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, name)
        self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(64))
        self.streams, self.event = [Pointer(), Pointer()], Pointer()
        for stream in self.streams:
            self.cuda.cuStreamCreate(ctypes.byref(stream), 1)
        self.cuda.cuEventCreate(ctypes.byref(self.event), 2)

    def launch(self, which, stream):
        word, times = ctypes.c_uint64(self.memory.value), ctypes.c_uint64(self.memory.value + 16)
        values = (Pointer * 2)(ctypes.addressof(word), ctypes.addressof(times))
        early = Attribute(EARLY, b"", int(which == 1))
        config = Config((1, 1, 1, 1, 1, 1, 0), stream, ctypes.pointer(early), 1)
        self.cuda.cuLaunchKernelEx(ctypes.byref(config), self.kernels[which], values, None)

    def queue(self, is_forked):
        last = self.streams[int(is_forked)]
        self.launch(0, self.streams[0])
        self.launch(1, self.streams[0])
        if is_forked:
            self.cuda.cuEventRecord(self.event, self.streams[0])
            self.cuda.cuStreamWaitEvent(last, self.event, 0)
        self.launch(2, last)
        if is_forked:
            self.cuda.cuEventRecord(self.event, last)
            self.cuda.cuStreamWaitEvent(self.streams[0], self.event, 0)

    def captured(self, is_forked):
        graph, executable = Pointer(), Pointer()
        self.cuda.cuStreamBeginCapture_v2(self.streams[0], 2)
        self.queue(is_forked)
        self.cuda.cuStreamEndCapture(self.streams[0], ctypes.byref(graph))
        self.cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0))
        return graph, executable

    def edges(self, graph):
        count = ctypes.c_size_t(16)
        ends = (Pointer * 16)(), (Pointer * 16)()
        data = (Edge * 16)()
        self.cuda.cuGraphGetEdges_v2(graph, *ends, data, ctypes.byref(count))
        return sorted((data[i].type, data[i].from_port) for i in range(count.value))

    def read(self):
        """What the third found, and the nanoseconds between the beginnings of the first two."""
        self.cuda.cuCtxSynchronize()
        words, times = (ctypes.c_uint32 * 2)(), (ctypes.c_uint64 * 2)()
        self.cuda.cuMemcpyDtoH_v2(words, self.memory, ctypes.c_size_t(8))
        self.cuda.cuMemcpyDtoH_v2(times, ctypes.c_uint64(self.memory.value + 16),
                                  ctypes.c_size_t(16))
        return words[1], times[1] - times[0]

    def missing(self, name, run):
        found = []
        for _ in range(ROUNDS):
            self.cuda.cuMemsetD8_v2(self.memory, 0, ctypes.c_size_t(64))
            self.cuda.cuCtxSynchronize()
            run()
            found.append(self.read())
        count = sum(word == 0 for word, _ in found)
        early = sorted(ns for _, ns in found)[ROUNDS // 2] / 1e6
        print(f"{name}: the second began {early:.2f} ms after the first; "
              f"the word was missing {count} times of {ROUNDS}", flush=True)
        return count


def main():
    program, count = Program(), 0
    for is_forked in (False, True):
        name = "two streams" if is_forked else "one stream"
        count += program.missing(name, lambda: program.queue(is_forked))
        graph, executable = program.captured(is_forked)
        print(f"{name}, captured: edges (type, port):", program.edges(graph))
        count += program.missing(f"{name}, captured",
                                 lambda: program.cuda.cuGraphLaunch(executable, program.streams[0]))
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
