#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots with the stacks that PyTorch 2.1 to 2.12 records: C++ frames on top of Python's lines,
between which the interpreter's own lie, 60 to 80 frames deep.

snapshot(KIND) gives the dictionary of torch.cuda.memory._snapshot(), and the names that a reader
must find, with the bytes that each holds:

    all        stacks="all", which is the default: C++ and Python
    python     stacks="python"
    cpp        a program of C++ with libtorch: no Python anywhere
    compiled   torch.compile: Inductor's code, Dynamo's frames, Triton's launcher
    stripped   C++ of which the unwinder knows no names
    backward   the autograd engine's own thread, where there is no Python

    torch_frames.py KIND OUT.pickle|OUT.json
"""
import json
import pickle
import sys

MIB = 1 << 20
SITE = "/opt/conda/lib/python3.11/site-packages/"
CPYTHON = "/usr/local/src/conda/python-3.11.9/"

SIZES = ("c10::ArrayRef<long>, std::optional<c10::ScalarType>, std::optional<c10::Layout>, "
         "std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat>")
RECORDER = [
    ("torch::unwind::unwind()", "??", 0),
    ("torch::CapturedTraceback::gather(bool, bool, bool)", "??", 0),
    ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp", 0),
    ("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, "
     "unsigned long, CUstream_st*)", "CUDACachingAllocator.cpp", 0),
    ("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, "
     "unsigned long, CUstream_st*)", "", 0),
    ("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
     "", 0)]
KERNEL = "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<" \
         "c10::CompileTimeFunctionPointer<at::Tensor (c10::DispatchKeySet, at::Tensor const&), " \
         "&(torch::autograd::VariableType::(anonymous namespace)::{0}(c10::DispatchKeySet, " \
         "at::Tensor const&))>, at::Tensor, c10::guts::typelist::typelist<c10::DispatchKeySet, " \
         "at::Tensor const&> >, at::Tensor (c10::DispatchKeySet, at::Tensor const&)>::call(" \
         "c10::OperatorKernel*, c10::DispatchKeySet, at::Tensor const&)"


def empty():
    """torch.empty, down to the allocator."""
    return RECORDER + [
        ("at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::Allocator*, "
         "c10::DispatchKeySet, c10::ScalarType, std::optional<c10::MemoryFormat>)", "", 0),
        ("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*, c10::DispatchKeySet, "
         "c10::ScalarType, std::optional<c10::MemoryFormat>)", "??", 0),
        (f"at::detail::empty_cuda({SIZES})", "??", 0),
        (f"at::native::empty_cuda({SIZES})", "??", 0),
        ("at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_memory_format_empty("
         f"{SIZES})", "RegisterCUDA_0.cpp", 0),
        (KERNEL.format("empty"), "RegisterCUDA_0.cpp", 0),
        (f"at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet, {SIZES})", "??", 0),
        (f"at::_ops::empty_memory_format::call({SIZES})", "??", 0)]


def operation(name):
    """An operation that makes its result: its meta function allocates."""
    return RECORDER + [
        ("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)", "??", 0),
        ("at::(anonymous namespace)::create_out(c10::ArrayRef<long>, c10::ArrayRef<long>, "
         "c10::TensorOptions const&)", "RegisterCUDA.cpp", 0),
        (f"at::(anonymous namespace)::structured_{name}_out_functional::set_output_raw_strided("
         "long, c10::ArrayRef<long>, c10::ArrayRef<long>, c10::TensorOptions)",
         "RegisterCUDA.cpp", 0),
        ("at::TensorIteratorBase::build(at::TensorIteratorConfig&)", "??", 0),
        (f"at::meta::structured_{name}::meta(at::Tensor const&)", "??", 0),
        (f"at::(anonymous namespace)::wrapper_CUDA_{name}(at::Tensor const&)",
         "RegisterCUDA.cpp", 0),
        (KERNEL.format(name), "RegisterCUDA.cpp", 0),
        (f"at::_ops::{name}::redispatch(c10::DispatchKeySet, at::Tensor const&)", "??", 0),
        (f"torch::autograd::VariableType::(anonymous namespace)::{name}(c10::DispatchKeySet, "
         "at::Tensor const&)", "VariableType_1.cpp", 0),
        (KERNEL.format(name), "VariableType_1.cpp", 0),
        (f"at::_ops::{name}::call(at::Tensor const&)", "??", 0)]


def binding(name):
    """From PyTorch's C++ to the interpreter, in the forms that both leave."""
    return [(f"torch::autograd::THPVariable_{name}(_object*, _object*, _object*)",
             "python_torch_functions_2.cpp", 0),
            ("_object* torch::autograd::TypeError_to_NotImplemented_<&torch::autograd::"
             f"THPVariable_{name}>(_object*, _object*, _object*)",
             "python_variable_methods.cpp", 0),
            ("cfunction_call.lto_priv.0", "", 0)]


CALLS = [
    [("method_vectorcall.llvm.12275804309777372242", "??", 0),
     ("_PyEval_EvalFrameDefault", "??", 0)],
    [("_PyEval_EvalFrame", CPYTHON + "Include/internal/pycore_ceval.h", 73),
     ("_PyObject_Call_Prepend", "??", 0), ("slot_tp_call", "??", 0), ("do_call_core", "??", 0)],
    [("bounded_lru_cache_wrapper", CPYTHON + "Modules/_functoolsmodule.c", 1020),
     ("_PyFunction_Vectorcall", CPYTHON + "Objects/call.c", 413), ("partial_call", "??", 0),
     ("vectorcall_maybe", "??", 0)]]
MAIN = [("PyEval_EvalCode", CPYTHON + "Python/ceval.c", 1148), ("run_eval_code_obj", "??", 0),
        ("run_mod.llvm.9196888086361497952", "??", 0), ("pyrun_file", "??", 0),
        ("_PyRun_SimpleFileObject", "??", 0), ("pymain_run_file_obj", "??", 0),
        ("Py_RunMain", "??", 0), ("__libc_start_main", "??", 0), ("_start", "??", 0)]
THREAD = [("execute_native_thread_routine", "thread48.o", 0),
          ("pthread_condattr_setpshared", "??", 0), ("__xmknodat", "??", 0)]

MODULE = SITE + "torch/nn/modules/module.py"
WRAPPED = [("_call_impl", MODULE, 1750), ("_wrapped_call_impl", MODULE, 1739)]
STEP = [("train_step", "/home/me/run/train.py", 88),
        ("accumulate_gradients", "/home/me/run/accumulation.py", 301),
        ("run_epoch", "/home/me/run/epochs.py", 77),
        ("decorate_context", SITE + "torch/utils/_contextlib.py", 116),
        ("main", "/home/me/run/train.py", 120), ("<module>", "/home/me/run/train.py", 131)]
STEPS = "train_step train.py:88 < accumulate_gradients accumulation.py:301 < " \
        "run_epoch epochs.py:77 < main train.py:120 < <module> train.py:131"
WORKER = [("run", "/opt/conda/lib/python3.11/threading.py", 982),
          ("_bootstrap_inner", "/opt/conda/lib/python3.11/threading.py", 1045)]
ATTENTION = [("attention", "/home/me/run/model.py", 31)] + WRAPPED + \
    [("forward", "/home/me/run/model.py", 70)] + WRAPPED
MLP = [("forward", SITE + "torch/nn/modules/linear.py", 125)] + WRAPPED + \
    [("mlp", "/home/me/run/model.py", 57)] + WRAPPED + [("forward", "/home/me/run/model.py", 72)]
BATCH = [("batch", "/home/me/run/data.py", 12), ("<lambda>", "<frozen functools>", 9)]


def mixed(native, python, below=None):
    """PyTorch's merge of both: each line of Python where the interpreter's loop was, and what is
    over after the interpreter's last frame."""
    frames = list(native)
    for place, line in enumerate(python[:-2]):
        frames += [line] + CALLS[place % len(CALLS)]
    return frames + (below or MAIN) + python[-2:]


def training(kind):
    """Three places of a training program hold 48, 24 and 8 MiB; two of them by two operations."""
    def stack(native, python):
        return python if kind == "python" else mixed(native, python)

    return [(6, 4, stack(empty() + binding("empty"), ATTENTION + STEP)),
            (6, 4, stack(operation("bmm") + binding("bmm"), ATTENTION + STEP)),
            (12, 2, stack(operation("addmm") + binding("linear"), MLP + STEP)),
            (2, 4, stack(empty() + binding("empty"), BATCH + WORKER + STEP[-1:]))], {
        f"attention model.py:31 < forward model.py:70 < {STEPS}": 48 * MIB,
        f"mlp model.py:57 < forward model.py:72 < {STEPS}": 24 * MIB,
        "batch data.py:12 < <module> train.py:131": 8 * MIB}


def native_program():
    """A program of C++ with libtorch, built with debug information in part."""
    below = [("std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()",
              "??", 0)] + THREAD
    embed = [("at::Tensor net::Embedding::forward<float>(at::Tensor const&, bool)", "net.cpp", 40),
             ("(anonymous namespace)::serve(net::Model&, std::vector<at::Tensor, "
              "std::allocator<at::Tensor> > const&)", "serve.cpp", 17)]
    cache = [("net::Cache::operator()(long) const", "net.cpp", 77), ("PyramidNet::grow()", "??", 0),
             ("load_weights", "", 0), ("main", "", 0)]
    return [(3, 4, operation("embedding") + embed + below), (2, 8, empty() + cache + MAIN[-2:])], {
        "net::Embedding::forward<...> net.cpp:40 < serve serve.cpp:17": 12 * MIB,
        "net::Cache::operator() net.cpp:77 < PyramidNet::grow < load_weights < main": 16 * MIB}


def compiled():
    """Inductor's generated code allocates; Dynamo and AOT autograd called it."""
    dynamo = [("run", SITE + "torch/_inductor/output_code.py", 460),
              ("runtime_wrapper", SITE + "torch/_functorch/_aot_autograd/runtime_wrappers.py", 300),
              ("_fn", SITE + "torch/_dynamo/eval_frame.py", 574)]
    call = [("call", "/tmp/torchinductor_me/cx/cxyz4k2.py", 211)]
    launch = [("launcher", "<string>", 5),
              ("run", SITE + "triton/runtime/jit.py", 600),
              ("autotune", SITE + "torch/_inductor/runtime/triton_heuristics.py", 880)]
    stride = RECORDER + [
        ("(anonymous namespace)::empty_strided_cuda(_object*, _object*)", "guards.cpp", 0)]
    return [(5, 2, mixed(stride, call + dynamo + MLP + STEP)),
            (1, 2, mixed(stride, launch + call + dynamo + MLP + STEP)),
            (4, 2, mixed(stride, call + dynamo[:2] + [
                ("apply", SITE + "torch/autograd/function.py", 311)] * 2))], {
        f"mlp model.py:57 < forward model.py:72 < {STEPS}": 12 * MIB,
        "call cxyz4k2.py:211": 8 * MIB}


def stripped():
    """The unwinder knows neither function nor file of the program."""
    return [(2, 4, RECORDER + [("??", "??", 0), ("??", "??", 0)] + MAIN[-2:])], {"??": 8 * MIB}


def backward():
    """The engine's thread: what it was doing is the name of a function for backward."""
    engine = [
        ("torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> "
         ">&&)", "", 0),
        ("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&, "
         "torch::autograd::Node*, torch::autograd::InputBuffer&)", "??", 0),
        ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
         "??", 0),
        ("torch::autograd::python::PythonEngine::thread_init(int, std::shared_ptr<torch::autograd::"
         "ReadyQueue> const&, bool)", "??", 0)] + THREAD
    mm = [("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor, "
           "std::allocator<at::Tensor> >&&)", "??", 0)]
    summed = [("at::Tensor at::_sum_to<c10::SymInt>(at::Tensor, c10::ArrayRef<c10::SymInt>, bool)",
               "??", 0),
              ("torch::autograd::InputMetadata::reduce_grad(at::Tensor&) const", "", 0)]
    return [(4, 4, operation("mm") + mm + engine),
            (1, 2, operation("sum_dim_IntList") + summed + engine[1:])], {
        "MmBackward0::apply": 16 * MIB, "torch::autograd::InputMetadata::reduce_grad": 2 * MIB}


KINDS = {"all": lambda: training("all"), "python": lambda: training("python"),
         "cpp": native_program, "compiled": compiled, "stripped": stripped, "backward": backward}

# Words of the recorder's, the allocator's, the dispatcher's and the interpreter's frames.
NOT_NAMES = ("unwind", "CapturedTraceback", "gather", "CachingAllocator", "empty_cuda",
             "redispatch", "wrap_kernel", "THPVariable", "_PyEval", "_Py", "vectorcall",
             "_call_impl", "lru_cache", "partial_call", "pthread", "xmknodat", "threading",
             "Engine", "_ops::", "decorate_context", "runtime_wrapper", "_start",
             "do_call_core", "<frozen")


def snapshot(kind):
    """The dictionary, and {name: bytes}."""
    holders, names = KINDS[kind]()
    base = address = 0x7F0000000000
    now = 1_790_000_000_000_000
    blocks, trace = [], [{"action": "segment_map", "addr": base, "stream": 0, "time_us": now,
                          "size": sum(count * mib for count, mib, _ in holders) * MIB}]
    for count, mib, frames in holders:
        dictionaries = [{"name": n, "filename": f, "line": line} for n, f, line in frames]
        for _ in range(count):
            now += 50
            block = {"address": address, "size": mib * MIB, "requested_size": mib * MIB,
                     "state": "active_allocated", "frames": dictionaries}
            blocks.append(block)
            trace.append({"action": "alloc", "addr": address, "size": mib * MIB, "stream": 0,
                          "time_us": now, "compile_context": "N/A", "user_metadata": "",
                          "frames": dictionaries})
            address += mib * MIB
    held = address - base
    return {"segments": [{"device": 0, "address": base, "total_size": held, "stream": 0,
                          "segment_type": "large", "segment_pool_id": (0, 0), "frames": [],
                          "is_expandable": True, "allocated_size": held, "active_size": held,
                          "requested_size": held, "blocks": blocks}],
            "device_traces": [trace], "external_annotations": [],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "",
                                   "expandable_segments": True}}, names


if __name__ == "__main__":
    CONTENT, _ = snapshot(sys.argv[1])
    with open(sys.argv[2], "wb") as out:
        out.write(json.dumps(CONTENT).encode() if sys.argv[2].endswith(".json")
                  else pickle.dumps(CONTENT))
