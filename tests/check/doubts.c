/* SPDX-License-Identifier: Apache-2.0 */
/* Right programs that look like wrong ones, beside wrong ones that look like these: hosts that
 * poll, streams that wait for values, operations of no bytes, numbers that equal addresses. */
#include <string.h>

#include <tenure/simcuda.h>

#include "zoo.h"

/* ---- hosts that poll ------------------------------------------------------------------------ */

/* A word that kernels write and the host reads. */
static volatile unsigned *flag_make(CUdeviceptr *device)
{
    void *flag;
    MUST(cuMemHostAlloc(&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(flag, 0, 4096);
    MUST(cuMemHostGetDevicePointer(device, flag, 0));
    return flag;
}

static void flag_poll(volatile unsigned *flag)
{
    while (*flag != 1)
        simcuda_run(UINT64_MAX);
}

static void signal_by_value(CUdeviceptr flag)
{
    MUST(cuStreamWriteValue32(the.b, flag, 1, 0));
}

static void signal_by_set(CUdeviceptr flag)
{
    MUST(cuMemsetD32Async(flag, 1, 1, the.b));
}

/* A copy to the host, of so many bytes that all are 1. */
static CUdeviceptr ones;

static void ones_make(void)
{
    MUST(cuMemAlloc(&ones, 4096));
    MUST(cuMemsetD32(ones, 1, 1024));
    MUST(cuCtxSynchronize());
}

static void signal_by_copy(CUdeviceptr flag, size_t bytes)
{
    MUST(cuMemcpyDtoHAsync((void *)(uintptr_t)flag, ones, bytes, the.b));
}

static void signal_by_word(CUdeviceptr flag)
{
    signal_by_copy(flag, 4);
}

static void signal_by_page(CUdeviceptr flag)
{
    signal_by_copy(flag, 4096);
}

static void signal_run(void *const *params)
{
    CUdeviceptr flag;
    memcpy(&flag, params[0], sizeof(flag));
    *(unsigned *)(uintptr_t)flag = 1;
}

static CUfunction kernel_make(const char *name, size_t count, const size_t *bytes,
                              void (*run)(void *const *))
{
    CUmodule module;
    CUfunction function;
    if (simcuda_kernel_register(name, count, bytes, run, NULL) != 0)
        exit(1);
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

static void launch(CUfunction function, CUstream stream, void **params)
{
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void signal_by_kernel(CUdeviceptr flag)
{
    static const size_t bytes[] = {8};
    launch(kernel_make("signal", 1, bytes, signal_run), the.b, (void *[]){&flag});
}

/* The address lies in a structure. */
static void signal_by_structure(CUdeviceptr flag)
{
    static const size_t bytes[] = {16};
    CUdeviceptr words[2] = {flag, 7};
    launch(kernel_make("signal", 1, bytes, signal_run), the.b, (void *[]){words});
}

/* What the host polls is written after the use; or before it, so that it tells nothing. */
static void poll(void (*give)(CUdeviceptr flag))
{
    CUdeviceptr flag, block = make(the.a);
    volatile unsigned *word = flag_make(&flag);
    ones_make();
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        give(flag);
    MUST(cuMemsetD8Async(block, 1, BYTES, the.b));
    if (!the.is_wrong)
        give(flag);
    flag_poll(word);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_poll_value(void)
{
    poll(signal_by_value);
}

void animal_poll_set(void)
{
    poll(signal_by_set);
}

void animal_poll_word(void)
{
    poll(signal_by_word);
}

void animal_poll_page(void)
{
    poll(signal_by_page);
}

void animal_poll_kernel(void)
{
    poll(signal_by_kernel);
}

void animal_poll_structure(void)
{
    poll(signal_by_structure);
}

/* A graph writes the flag. */
void animal_poll_graph(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr flag, block = make(the.a);
    volatile unsigned *word = flag_make(&flag);
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = flag, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, the.context));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuGraphLaunch(exec, the.b));
    MUST(cuMemsetD8Async(block, 1, BYTES, the.b));
    if (!the.is_wrong)
        MUST(cuGraphLaunch(exec, the.b));
    flag_poll(word);
    MUST(cuMemFreeAsync(block, the.a));
}

/* The block itself is copied: a word at once, of more the host may see a part. */
void animal_poll_the_copy(void)
{
    CUdeviceptr flag, block = make(the.a);
    volatile unsigned *word = flag_make(&flag);
    MUST(cuMemsetD32Async(block, 1, 1024, the.a));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemcpyDtoHAsync((void *)(uintptr_t)flag, block, the.is_wrong ? 4096 : 4, the.b));
    flag_poll(word);
    MUST(cuMemFreeAsync(block, the.a));
}

/* What the device's race detector sees: the host has polled between the two. */
void animal_poll_and_write(void)
{
    CUdeviceptr flag, block = make(the.a);
    volatile unsigned *word = flag_make(&flag);
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        signal_by_value(flag);
    MUST(cuMemsetD8Async(block, 1, BYTES, the.b));
    if (!the.is_wrong)
        signal_by_value(flag);
    flag_poll(word);
    MUST(cuMemsetD8Async(block, 2, BYTES, the.a));
    MUST(cuCtxSynchronize());
}

/* ---- streams that wait for values ----------------------------------------------------------- */

static CUdeviceptr value_make(void)
{
    CUdeviceptr value;
    MUST(cuMemAlloc(&value, 4));
    MUST(cuMemsetD32(value, 1, 1));
    MUST(cuCtxSynchronize());
    return value;
}

/* Another stream waits for one: that orders nothing here. */
void animal_value_elsewhere(void)
{
    CUdeviceptr value = value_make(), block = make(the.a);
    MUST(cuStreamWaitValue32(the.c, value, 1, CU_STREAM_WAIT_VALUE_EQ));
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* The host has seen the wait end: it cannot have been for what was enqueued later. */
void animal_value_seen(void)
{
    CUdeviceptr value = value_make(), block = make(the.a);
    MUST(cuStreamWaitValue32(the.a, value, 1, CU_STREAM_WAIT_VALUE_EQ));
    MUST(cuStreamSynchronize(the.a));
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* On one stream the use comes after the free, whatever the stream waits for. */
void animal_value_and_late_use(void)
{
    CUdeviceptr value = value_make(), block = make(the.a);
    MUST(cuStreamWaitValue32(the.a, value, 1, CU_STREAM_WAIT_VALUE_EQ));
    if (!the.is_wrong)
        MUST(cuMemsetD8Async(block, 0, 64, the.a));
    MUST(cuMemFreeAsync(block, the.a));
    if (the.is_wrong)
        MUST(cuMemsetD8Async(block, 0, 64, the.a));
}

/* Of another stream it may come before the free, if that waits for it. */
void animal_value_and_use_elsewhere(void)
{
    CUdeviceptr value, block = make(the.a);
    MUST(cuMemAlloc(&value, 4));
    MUST(cuMemsetD32(value, 0, 1));
    MUST(cuCtxSynchronize());
    MUST(cuStreamWaitValue32(the.a, value, 1, CU_STREAM_WAIT_VALUE_EQ));
    if (the.is_wrong)
        MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemsetD8Async(block, 0, 64, the.b));
    MUST(cuStreamWriteValue32(the.b, value, 1, 0));
    if (!the.is_wrong) {
        wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(block, the.a));
    }
    MUST(cuCtxSynchronize());
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Operations of no bytes, of all shapes, on freed memory; or of one byte. */
void animal_no_bytes(void)
{
    CUdeviceptr block = make(the.a), freed = make(the.a);
    size_t bytes = the.is_wrong;
    char host[16] = {0};
    MUST(cuMemFreeAsync(freed, the.a));
    MUST(cuMemsetD8Async(freed, 0, bytes, the.a));
    MUST(cuMemsetD32Async(freed, 0, 0, the.a));
    MUST(cuMemsetD8(freed, 0, 0));
    MUST(cuMemcpyDtoDAsync(block, freed, 0, the.a));
    MUST(cuMemcpyHtoD(freed, host, 0));
    MUST(cuMemcpyHtoDAsync(block + BYTES, host, 0, the.a));
    MUST(cuCtxSynchronize());
}

/* One that runs over the end. */
void animal_runs_over(void)
{
    CUdeviceptr block;
    size_t more = (size_t)the.is_wrong * 4;
    MUST(cuMemAlloc(&block, 1000));
    MUST(cuMemsetD8(block, 7, 1000 + more));
    MUST(cuMemsetD8(block + 999, 7, 1));
    MUST(cuMemFree(block));
}

/* ---- parameters ----------------------------------------------------------------------------- */

static void nothing_run(void *const *params)
{
    (void)params;
}

/* out = f(in), of two blocks of one size, and the first launch of all: a kernel that is given
 * nothing but addresses has no number among them. */
void animal_only_pointers(void)
{
    static const size_t bytes[] = {8, 8};
    CUfunction f = kernel_make("f", 2, bytes, nothing_run);
    CUdeviceptr in, out;
    MUST(cuMemAlloc(&in, BYTES));
    MUST(cuMemAlloc(&out, BYTES));
    if (the.is_wrong)
        MUST(cuMemFree(out));
    launch(f, NULL, (void *[]){&in, &out});
    MUST(cuCtxSynchronize());
}

/* A number that equals the address of a freed block. */
void animal_number(void)
{
    static const size_t bytes[] = {8, 8, 4};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a), freed = make(the.a), number = 12345;
    unsigned count = 16;
    MUST(cuMemFreeAsync(freed, the.a));
    launch(f, the.a, (void *[]){&block, the.is_wrong ? &freed : &number, &count});
}

/* It was a block's address at an earlier launch. */
void animal_pointer_by_then(void)
{
    static const size_t bytes[] = {8, 8, 4};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a), freed = make(the.a);
    unsigned count = 16;
    launch(f, the.a, (void *[]){&block, &freed, &count});
    MUST(cuMemFreeAsync(freed, the.a));
    launch(f, the.a, (void *[]){&block, the.is_wrong ? &freed : &block, &count});
}

/* No items: the kernel reads nothing, wherever its pointer leads. */
void animal_no_items(void)
{
    static const size_t bytes[] = {8, 4};
    CUfunction f = kernel_make("f", 2, bytes, nothing_run);
    CUdeviceptr block = make(the.a), other = make(the.a);
    unsigned count = 16;
    launch(f, the.a, (void *[]){&block, &count});
    MUST(cuMemFreeAsync(block, the.a));
    count = 0;
    launch(f, the.a, (void *[]){the.is_wrong ? &block : &other, &count});
}

/* A kernel that does one thing or another: what it needs for the first has been freed when it is
 * asked for the second. */
static void choose(unsigned first, unsigned second)
{
    static const size_t bytes[] = {8, 8, 4, 4};
    CUfunction f = kernel_make("f", 4, bytes, nothing_run);
    CUdeviceptr block = make(the.a), space = make(the.a);
    unsigned count = 16;
    for (int i = 0; i < 3; i++)
        launch(f, the.a, (void *[]){&block, &space, &count, &first});
    MUST(cuMemFreeAsync(space, the.a));
    CUdeviceptr given = the.is_wrong ? space : block;
    for (int i = 0; i < 3; i++)
        launch(f, the.a, (void *[]){&block, &given, &count, &second});
}

void animal_choice(void)
{
    choose(1, 2);
}

/* It is asked for the same as with memory that was live. */
void animal_same_choice(void)
{
    choose(2, 2);
}

/* The same, and the choice has eight bytes. */
void animal_wide_choice(void)
{
    static const size_t bytes[] = {8, 8, 8};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a), space = make(the.a);
    uint64_t way = 1;
    launch(f, the.a, (void *[]){&block, &space, &way});
    MUST(cuMemFreeAsync(space, the.a));
    way = 2;
    launch(f, the.a, (void *[]){&block, the.is_wrong ? &space : &block, &way});
}

/* Items from one number to before another, of which a stream gets none: it need not be waited for.
 * `bytes`: how many the numbers have; packed: the parameters lie in one buffer. */
static void bounds(size_t number_bytes, uint64_t to, int is_packed)
{
    size_t bytes[] = {8, number_bytes, number_bytes};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a);
    uint64_t from = 100, till = 900;
    struct {
        CUdeviceptr block;
        unsigned from, to;
    } packed = {block, 100, 900};
    size_t all = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &all,
                     CU_LAUNCH_PARAM_END};
    wait_for(the.a, the.b);
    for (int i = 0; i < 4; i++) { /* the last three alike */
        CUstream stream = i == 0 ? the.a : the.b;
        if (is_packed)
            MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
        else
            launch(f, stream, (void *[]){&block, &from, &till});
        from = packed.from = 900;
        till = to;
        packed.to = (unsigned)to;
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_bounds(void)
{
    bounds(4, 1000, 0);
}

void animal_bounds_meet(void)
{
    bounds(4, 900, 0);
}

void animal_wide_bounds_meet(void)
{
    bounds(8, 900, 0);
}

void animal_packed_bounds_meet(void)
{
    bounds(4, 900, 1);
}

/* Two sizes that are equal once and have been less and more before are no bounds. */
void animal_equal_sizes(void)
{
    static const size_t bytes[] = {8, 4, 4};
    static const unsigned sizes[][2] = {{100, 900}, {900, 100}, {900, 900}};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    for (int i = 0; i < 3; i++) {
        unsigned rows = sizes[i][0], columns = sizes[i][1];
        launch(f, i == 2 ? the.b : the.a, (void *[]){&block, &rows, &columns});
    }
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* The bounds are pointers into one block. */
void animal_range_is_empty(void)
{
    static const size_t bytes[] = {8, 8};
    CUfunction f = kernel_make("f", 2, bytes, nothing_run);
    CUdeviceptr block = make(the.a), begin = block, end = block + 4096;
    wait_for(the.a, the.b);
    launch(f, the.a, (void *[]){&begin, &end});
    begin = end;
    launch(f, the.b, (void *[]){&begin, &end});
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* out = f(in) of two blocks, and then in place: that is no empty range. */
void animal_in_place(void)
{
    static const size_t bytes[] = {8, 8};
    CUfunction f = kernel_make("f", 2, bytes, nothing_run);
    CUdeviceptr in = make(the.a), out = make(the.a);
    wait_for(the.a, the.b);
    launch(f, the.a, (void *[]){&in, &out});
    launch(f, the.b, (void *[]){&out, &out});
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(out, the.a));
}

/* A piece of work space stays in a parameter when the work space is given back, and the kernel does
 * not look there: cuSOLVER's getrf_pivot is given such. */
void animal_piece_left_over(void)
{
    static const size_t bytes[] = {8, 8, 4};
    CUfunction f = kernel_make("f", 3, bytes, nothing_run);
    CUdeviceptr block = make(the.a), space = make(the.a), piece = space + 4096;
    unsigned count = 16;
    launch(f, the.a, (void *[]){&block, &piece, &count});
    MUST(cuMemFreeAsync(space, the.a));
    launch(f, the.a, (void *[]){&block, the.is_wrong ? &piece : &block, &count});
}

/* A parameter that has always been zero says nothing. */
void animal_always_zero(void)
{
    static const size_t bytes[] = {8, 4};
    CUfunction f = kernel_make("f", 2, bytes, nothing_run);
    CUdeviceptr block = make(the.a), other = make(the.a);
    unsigned zero = 0;
    for (int i = 0; i < 8; i++)
        launch(f, the.a, (void *[]){&block, &zero});
    MUST(cuMemFreeAsync(block, the.a));
    launch(f, the.a, (void *[]){the.is_wrong ? &block : &other, &zero});
}

/* Zero at first, and a length after all; beside numbers of other sizes, some of them zero. */
void animal_zero_at_first(void)
{
    static const size_t bytes[] = {8, 1, 4, 4, 2, 4};
    CUfunction f = kernel_make("f", 6, bytes, nothing_run);
    CUdeviceptr block = make(the.a), other = make(the.a);
    unsigned char flag = 0;
    unsigned short half = 1;
    unsigned always = 0, never = 5, count = 0;
    void *parameters[] = {&block, &flag, &always, &count, &half, &never};
    for (int i = 0; i < 9; i++)
        launch(f, the.a, parameters);
    count = 16;
    launch(f, the.a, parameters);
    MUST(cuMemFreeAsync(block, the.a));
    count = 0;
    parameters[0] = the.is_wrong ? &block : &other;
    launch(f, the.a, parameters);
}

/* ---- code that is gone ---------------------------------------------------------------------- */

/* A kernel of the other device, in a context that is made for it and then goes. Nothing else has
 * the context: a stream of its own is Tenure's business. What lies behind the parameters is no
 * address. */
static CUfunction launch_elsewhere(const char *name, size_t count, int is_reset)
{
    static const size_t bytes[] = {8, 8};
    CUdevice device;
    CUcontext context;
    CUdeviceptr word = 0;
    void *beyond = (void *)(uintptr_t)1, *params[] = {&word, count > 1 ? &word : beyond};
    MUST(cuDeviceGet(&device, 1));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    CUfunction function = kernel_make(name, count, bytes, nothing_run);
    launch(function, NULL, params);
    MUST(cuCtxSynchronize());
    MUST(cuCtxSetCurrent(the.context));
    MUST(is_reset ? cuDevicePrimaryCtxReset(device) : cuDevicePrimaryCtxRelease(device));
    return function;
}

/* The next kernel gets the handle, and has a parameter less. */
void animal_code_of_a_context(void)
{
    CUdeviceptr block = make(the.a), other = make(the.b); /* no stream has all memory */
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        CUfunction first = launch_elsewhere("two parameters", 2, is_reset);
        if (launch_elsewhere("one parameter", 1, is_reset) != first)
            exit(1);
    }
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeAsync(other, the.b));
}
