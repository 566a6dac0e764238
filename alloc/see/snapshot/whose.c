/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose code a frame is: see whose.h. The lists have what PyTorch 2.1 to 2.12 and CPython 3.8 to
 * 3.14 put into stacks, with C++ frames and without.
 */
#include "see/snapshot/whose.h"

#include <ctype.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int begins_one(const char *text, const char *const *with, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (begins(text, with[i]))
            return 1;
    return 0;
}

static int ends(const char *text, const char *with)
{
    size_t length = strlen(text), wanted = strlen(with);
    return length >= wanted && strcmp(text + length - wanted, with) == 0;
}

/* ---- between a program and its memory ------------------------------------------------------- */

/* 1 for a function of the runtime's as programs call it. A program may have names that begin with
 * "cuda", too. */
static int is_runtime_call(const char *function)
{
    static const char *const calls[] = {"Malloc", "Free",   "Mem",   "Stream", "Graph",
                                        "Device", "Launch", "Event", "Host"};
    if (!begins(function, "cuda") || !begins_one(function + 4, calls, COUNT(calls)))
        return 0;
    for (const char *rest = function + 4; *rest != '\0'; rest++)
        if (!isalnum((unsigned char)*rest) && *rest != '_')
            return 0;
    return 1;
}

/* PyTorch's allocator, as Tenure compiled it before its file was called libtenure_torch-... */
static int is_our_class(const char *module)
{
    return begins(module, "torch-") && strstr(module, "-abi") != NULL;
}

int tnri_frame_is_between(const char *function, const char *module)
{
    static const char *const modules[] = {"libcudart", "libcuda.so", "libtenure"};
    static const char *const functions[] = {
        "tnr_",     "tnri_",      "__cudart",         "__device_stub__",
        "cudart::", "_ZN6cudart", "libcudart_static_"};
    if (module != NULL && (begins_one(module, modules, COUNT(modules)) || is_our_class(module)))
        return 1;
    return function != NULL &&
           (begins_one(function, functions, COUNT(functions)) || is_runtime_call(function));
}

/* ---- interpreted ---------------------------------------------------------------------------- */

/* Where `part` stands in a path, with either slash; null: nowhere. */
static const char *path_find(const char *path, const char *part)
{
    for (; *path != '\0'; path++) {
        size_t i = 0;
        while (part[i] != '\0' && (path[i] == part[i] || (part[i] == '/' && path[i] == '\\')))
            i++;
        if (part[i] == '\0')
            return path;
    }
    return NULL;
}

static int path_has_one(const char *path, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (path_find(path, parts[i]) != NULL)
            return 1;
    return 0;
}

/* What follows "torch/" in the path of a file of PyTorch; null: it is none. */
static const char *torch_file(const char *path)
{
    static const char *const folders[] = {"site-packages/torch/", "dist-packages/torch/"};
    /* A checkout, whose parts have these names; a program's own folder may be called torch. */
    static const char *const parts[] = {
        "/torch/nn/",        "/torch/utils/",        "/torch/autograd/",   "/torch/_dynamo/",
        "/torch/_inductor/", "/torch/_functorch/",   "/torch/_ops.py",     "/torch/_tensor.py",
        "/torch/optim/",     "/torch/functional.py", "/torch/distributed/"};
    for (size_t i = 0; i < COUNT(folders); i++) {
        const char *at = path_find(path, folders[i]);
        if (at != NULL)
            return at + strlen(folders[i]);
    }
    for (size_t i = 0; i < COUNT(parts); i++) {
        const char *at = path_find(path, parts[i]);
        if (at == NULL && begins(path, parts[i] + 1))
            at = path - 1;
        if (at != NULL)
            return at + strlen("/torch/");
    }
    return NULL;
}

static unsigned torch_file_whose(const char *rest)
{
    static const char *const machinery[] = {"nn/modules/module.py",
                                            "utils/_contextlib.py",
                                            "utils/_device.py",
                                            "utils/_python_dispatch.py",
                                            "utils/checkpoint.py",
                                            "_dynamo/",
                                            "_functorch/",
                                            "_inductor/",
                                            "_ops.py",
                                            "_library/",
                                            "_compile.py",
                                            "_tensor.py",
                                            "_higher_order_ops/",
                                            "fx/",
                                            "overrides.py",
                                            "autograd/",
                                            "multiprocessing/",
                                            "distributed/run.py",
                                            "distributed/launcher/",
                                            "distributed/elastic/",
                                            "nn/parallel/distributed.py"};
    return begins_one(rest, machinery, COUNT(machinery)) ? TNRI_WHOSE_MACHINERY
                                                         : TNRI_WHOSE_FRAMEWORK;
}

static unsigned python_whose(const char *file)
{
    static const char *const compiled[] = {"torchinductor_", "/triton/", "<eval_with_key>",
                                           "/.triton/", "<string>"};
    static const char *const launchers[] = {
        "-packages/IPython/",   "-packages/ipykernel/", "-packages/ipykernel_launcher.py",
        "-packages/traitlets/", "-packages/tornado/",   "-packages/debugpy/"};
    static const char *const standard[] = {"threading.py", "runpy.py", "contextlib.py",
                                           "functools.py"};
    const char *rest = torch_file(file);
    if (rest != NULL)
        return torch_file_whose(rest);
    if (begins(file, "<frozen ") || path_has_one(file, launchers, COUNT(launchers)))
        return TNRI_WHOSE_MACHINERY;
    if (path_has_one(file, compiled, COUNT(compiled)))
        return TNRI_WHOSE_FRAMEWORK;
    if ((path_find(file, "/lib/python") != NULL || path_find(file, "/Lib/") != NULL) &&
        path_find(file, "-packages/") == NULL)
        return TNRI_WHOSE_MACHINERY;
    for (size_t i = 0; i < COUNT(standard); i++)
        if (strcmp(file, standard[i]) == 0)
            return TNRI_WHOSE_MACHINERY;
    return TNRI_WHOSE_PROGRAM;
}

/* ---- compiled ------------------------------------------------------------------------------- */

static const char anonymous[] = "(anonymous namespace)";

void tnri_function_name(const char *function, size_t *first, size_t *end)
{
    int depth = 0;
    *first = 0;
    for (*end = 0; function[*end] != '\0'; ++*end) {
        const char *at = function + *end;
        int is_operator = *end >= *first + 8 && strncmp(at - 8, "operator", 8) == 0;
        if (begins(at, anonymous)) {
            *end += sizeof(anonymous) - 2;
        } else if (depth == 0 && is_operator) {
            /* Up to its parameters: "operator()(...)", "operator<(...)", "operator new(...)". */
            *end += begins(at, "()") ? 2 : strcspn(at, "(");
            return;
        } else if (*at == '<' || *at == '[' || *at == '{' || (*at == '(' && depth > 0)) {
            depth++;
        } else if (*at == '(') {
            return;
        } else if (depth > 0 && (*at == ')' || *at == ']' || *at == '}' ||
                                 (*at == '>' && *end > 0 && at[-1] != '-'))) {
            depth--;
        } else if (*at == ' ' && depth == 0) {
            *first = *end + 1;
        }
    }
}

/* How names of C++ and of C begin, demangled. One that ends in "$" is the whole name. */
/* clang-format off */
static const char *const allocator_names[] = {
    "torch::unwind::", "torch::CapturedTraceback::", "gather_with_cpp$",
    "torch::cuda::(anonymous namespace)::gather", "torch_npu::", "c10_npu::", "c10::cuda::",
    "c10::hip::", "c10::xpu::", "c10::CachingDeviceAllocator", "c10::alloc_", "c10::StorageImpl",
    "c10::TensorImpl", "at::detail::_empty", "at::detail::empty", "at::native::empty",
    "at::native::_empty", "at::native::new_empty", "at::native::resize", "at::native::allocate",
    "at::(anonymous namespace)::create_out"};
static const char *const framework_names[] = {
    "torch::autograd::generated::", "torch::autograd::InputMetadata::reduce_grad",
    "torch::autograd::InputBuffer::add", "torch::autograd::accumulate",
    "torch::autograd::AccumulateGrad", "at::native::", "at::cuda::", "c10d::", "torch::nn::",
    "torch::optim::", "torch::inductor::", "cutlass::", "cub::", "thrust::"};
static const char *const machinery_names[] = {
    "at::", "c10::", "torch::", "caffe2::", "pybind11::", "std::", "__", "_Py", "_start$", "THP",
    "THCP", "pymain_", "execute_native_thread_routine", "start_thread$", "pthread_", "clone$",
    "clone3$"};
/* clang-format on */

static int is_named(const char *name, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(beginnings[i]);
        int is_whole = beginnings[i][length - 1] == '$';
        if (strncmp(name, beginnings[i], length - (size_t)is_whole) == 0 &&
            (!is_whole || name[length - 1] == '\0' || name[length - 1] == '('))
            return 1;
    }
    return 0;
}

/* 0: nothing is known of it. */
static unsigned native_whose(const char *name)
{
    if (is_named(name, allocator_names, COUNT(allocator_names)))
        return TNRI_WHOSE_ALLOCATOR;
    if (is_named(name, framework_names, COUNT(framework_names)))
        return TNRI_WHOSE_FRAMEWORK;
    return is_named(name, machinery_names, COUNT(machinery_names)) ? TNRI_WHOSE_MACHINERY : 0;
}

/* "PyEval_EvalCode": CPython's form. A program may have a "PyramidNet", too. */
static int is_interpreters(const char *name)
{
    size_t i = 2;
    if (!begins(name, "Py"))
        return 0;
    while (isalnum((unsigned char)name[i]))
        i++;
    return name[i] == '_';
}

/* 1 for a Python: "python3.12", "python3.13t", "python.exe", "libpython3.12.so.1.0". A file of the
 * program's may be called python_solver.so, or pythonnet. */
static int is_python(const char *module)
{
    const char *rest = module + (begins(module, "lib") ? 3 : 0);
    if (!begins(rest, "python"))
        return 0;
    rest += strlen("python");
    while (isdigit((unsigned char)*rest) || (*rest == '.' && isdigit((unsigned char)rest[1])))
        rest++;
    rest += strspn(rest, "dmtuw"); /* debug, pymalloc, free-threaded, wide; without a window */
    return *rest == '\0' || begins(rest, ".so") || begins(rest, ".dylib") || begins(rest, ".dll") ||
           strcmp(rest, ".exe") == 0;
}

static unsigned module_whose(const char *module)
{
    static const char *const frameworks[] = {"libcublas", "libcudnn",    "libnccl",
                                             "libcufft",  "libcusparse", "libcusolver"};
    static const char *const machinery[] = {
        "libtorch.",    "libtorch_cpu",     "libtorch_cuda", "libtorch_hip",
        "libtorch_xpu", "libtorch_python.", "libc10.",       "libc10_",
        "libc.so",      "libc-2",           "libpthread",    "libstdc++",
        "libgcc_s",     "ld-linux",         "libffi.",       "_ctypes."};
    if (begins_one(module, frameworks, COUNT(frameworks)))
        return TNRI_WHOSE_FRAMEWORK;
    return is_python(module) || begins_one(module, machinery, COUNT(machinery))
               ? TNRI_WHOSE_MACHINERY
               : 0;
}

unsigned tnri_frame_whose(const char *function, const char *file, const char *module)
{
    size_t first, end;
    function = function == NULL ? "" : function;
    file = file == NULL ? "" : file;
    module = module == NULL ? "" : module;
    if (ends(file, ".py") || file[0] == '<')
        return python_whose(file) | TNRI_WHOSE_PYTHON;
    if (tnri_frame_is_between(function, module))
        return TNRI_WHOSE_ALLOCATOR;
    tnri_function_name(function, &first, &end);
    unsigned known = native_whose(function + first);
    if (known == 0)
        known = module_whose(module);
    if (known != 0)
        return known;
    /* A function that the interpreter calls with its own objects. */
    if (begins(function + end, "(_object*"))
        return TNRI_WHOSE_MACHINERY;
    /* Only C++ has parameters in its names; a file of C may be the interpreter's. */
    int is_plain =
        function[end] != '(' && strstr(function, "::") == NULL && module[0] == '\0' &&
        (file[0] == '\0' || strcmp(file, "??") == 0 || ends(file, ".c") || ends(file, ".h"));
    if (is_plain && is_interpreters(function))
        return TNRI_WHOSE_MACHINERY;
    return is_plain ? TNRI_WHOSE_PLAIN : TNRI_WHOSE_PROGRAM;
}

unsigned tnri_stack_shown(unsigned all)
{
    static const unsigned next[] = {TNRI_WHOSE_FRAMEWORK, TNRI_WHOSE_PLAIN, TNRI_WHOSE_MACHINERY};
    unsigned own = TNRI_WHOSE_PROGRAM;
    if ((all & TNRI_WHOSE_PYTHON) == 0)
        own |= TNRI_WHOSE_PLAIN;
    if ((all & own) != 0)
        return own;
    for (size_t i = 0; i < COUNT(next); i++)
        if ((all & next[i]) != 0)
            return next[i];
    return all;
}
