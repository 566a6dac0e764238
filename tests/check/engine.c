/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that is linked with libtenure, for the checker: each with its error and without.
 *
 *   check_engine NAME wrong|right [dlsym]
 *   check_engine exporter WAY
 *
 * With `dlsym` it finds the functions of libtenure by name, as a module of Python's does. The
 * exporter is the other process of those that import, which start it.
 */
#include <dlfcn.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/simcuda.h>
#include <tenure/tenure.h>

#include "interpreter.h"
#include "zoo.h"

#define FUNCTIONS(X)                                                                               \
    X(tnr_malloc)                                                                                  \
    X(tnr_host_malloc)                                                                             \
    X(tnr_free)                                                                                    \
    X(tnr_free_on)                                                                                 \
    X(tnr_free_sync)                                                                               \
    X(tnr_record_use)                                                                              \
    X(tnr_record_stream)                                                                           \
    X(tnr_keep_until)                                                                              \
    X(tnr_pool_malloc)                                                                             \
    X(tnr_reserve)                                                                                 \
    X(tnr_commit)                                                                                  \
    X(tnr_trim)                                                                                    \
    X(tnr_import_receive)                                                                          \
    X(tnr_import_open)                                                                             \
    X(tnr_attach)                                                                                  \
    X(tnr_import_close)                                                                            \
    X(tnr_device_end)                                                                              \
    X(tnr_capture_begin)                                                                           \
    X(tnr_capture_end)                                                                             \
    X(tnr_vouched_pool_create)                                                                     \
    X(tnr_frames_source_set)                                                                       \
    X(tnr_stream_name_set)

static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} library = {
#define LINKED(name) .name = name,
    FUNCTIONS(LINKED)
#undef LINKED
};

#define TENURE(call)                                                                               \
    do {                                                                                           \
        if (library.call != TNR_OK) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, tnr_last_error());       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { LARGE_BYTES = 64 << 20 };

zoo the;

static void functions_find(void)
{
    void *found, *handle = dlopen("libtenure.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (handle == NULL)
        exit(1);
#define FIND(name)                                                                                 \
    found = dlsym(handle, #name);                                                                  \
    memcpy(&library.name, &found, sizeof(found));
    FUNCTIONS(FIND)
#undef FIND
}

static void *block_make(void)
{
    void *block;
    TENURE(tnr_malloc(&block, BYTES, 0, the.a));
    MUST(cuMemsetD8Async((CUdeviceptr)block, 1, BYTES, the.a));
    return block;
}

/* The other stream uses it, after its allocation. */
static void block_use(void *block)
{
    MUST(cuEventRecord(the.event, the.a));
    MUST(cuStreamWaitEvent(the.b, the.event, 0));
    MUST(cuMemsetD8Async((CUdeviceptr)block, 2, BYTES, the.b));
}

/* ---- programs ------------------------------------------------------------------------------- */

/* A buffer of Tenure's pinned memory, filled for the next step while the last one's copy may still
 * read it. One that was freed is not watched: its memory is the next buffer's. */
static void host_buffer(void)
{
    void *buffer, *block = block_make();
    for (int turn = 0; turn < 3; turn++) {
        TENURE(tnr_host_malloc(&buffer, BYTES));
        memset(buffer, turn, BYTES);
        MUST(cuMemcpyHtoDAsync((CUdeviceptr)block, buffer, BYTES, the.a));
        if (!the.is_wrong)
            MUST(cuStreamSynchronize(the.a));
        ((char *)buffer)[4096] = 7;
        TENURE(tnr_free_on(buffer, the.a));
    }
    TENURE(tnr_free(block));
}

/* Buffers are freed while their copies are under way. Tenure hands one out again once its copy is
 * over, which nothing has told the program. */
static void host_reused(void)
{
    void *buffer, *first = NULL, *block = block_make();
    int reused = 0;
    for (int turn = 0; turn < 64; turn++) {
        TENURE(tnr_host_malloc(&buffer, BYTES));
        reused += buffer == first;
        first = first == NULL ? buffer : first;
        memset(buffer, turn, BYTES);
        MUST(cuMemcpyHtoDAsync((CUdeviceptr)block, buffer, BYTES, the.a));
        TENURE(tnr_free_on(buffer, the.a));
        simcuda_run(UINT64_MAX);
    }
    if (reused == 0)
        exit(1);
    TENURE(tnr_free(block));
}

/* The host reads in such memory that the other stream's use is over; or, wrong, that what came
 * before the use is. */
static void host_polls(void)
{
    void *word, *block = block_make(), *ones = block_make();
    TENURE(tnr_host_malloc(&word, 4096));
    memset(word, 0, 4096);
    MUST(cuStreamSynchronize(the.a));
    if (!the.is_wrong)
        MUST(cuMemsetD8Async((CUdeviceptr)block, 2, BYTES, the.b));
    MUST(cuMemcpyDtoHAsync(word, (CUdeviceptr)ones, 4, the.b));
    while (*(volatile unsigned *)word == 0)
        simcuda_run(UINT64_MAX);
    if (the.is_wrong)
        MUST(cuMemsetD8Async((CUdeviceptr)block, 2, BYTES, the.b));
    TENURE(tnr_free(block));
    TENURE(tnr_free(word));
}

static void record_use(void)
{
    void *block = block_make();
    block_use(block);
    if (!the.is_wrong)
        TENURE(tnr_record_use(block, the.b));
    TENURE(tnr_free(block));
}

/* What the engine calls its streams is in the finding. */
static void named(void)
{
    TENURE(tnr_stream_name_set(0, the.a, "was something else"));
    TENURE(tnr_stream_name_set(0, the.a, "owner"));
    TENURE(tnr_stream_name_set(0, the.b, "taken away"));
    TENURE(tnr_stream_name_set(0, the.b, NULL));
    record_use();
}

/* The use ends at the record: a later one is another. */
static void record_use_too_early(void)
{
    void *block = block_make();
    block_use(block);
    TENURE(tnr_record_use(block, the.b));
    if (the.is_wrong)
        block_use(block);
    TENURE(tnr_free(block));
}

static void record_stream(void)
{
    void *block = block_make();
    if (!the.is_wrong)
        TENURE(tnr_record_stream((char *)block + 4096, the.b));
    block_use(block);
    TENURE(tnr_free(block));
}

static void keep_until(void)
{
    void *block = block_make();
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    block_use(block);
    CUstream waited = the.is_wrong ? the.a : the.b;
    tnr_moment before = tnr_moment_now();
    MUST(cuEventRecord(event, waited));
    if (tnr_event_recorded(event, 0, waited, before) != TNR_OK)
        exit(1);
    TENURE(tnr_keep_until(block, event));
    TENURE(tnr_free(block));
}

/* The right stream is the one that used it. */
static void free_on(void)
{
    void *block = block_make();
    block_use(block);
    TENURE(tnr_free_on(block, the.is_wrong ? the.c : the.b));
}

static void free_sync(void)
{
    void *block = block_make();
    block_use(block);
    if (the.is_wrong)
        TENURE(tnr_free(block));
    else
        TENURE(tnr_free_sync(block));
}

/* An event orders it: nothing needs to be recorded. */
static void ordered(void)
{
    void *block = block_make();
    block_use(block);
    if (!the.is_wrong) {
        MUST(cuEventRecord(the.event, the.b));
        MUST(cuStreamWaitEvent(the.a, the.event, 0));
    }
    TENURE(tnr_free(block));
}

static void order(void)
{
    MUST(cuEventRecord(the.event, the.b));
    MUST(cuStreamWaitEvent(the.a, the.event, 0));
}

/* It is ordered after the free, and before the next allocation on the stream, which alone may have
 * the memory: so the warm-ups of PyTorch's cudagraph trees do it. Wrong: one comes in between. */
static void ordered_in_time(void)
{
    void *block = block_make();
    block_use(block);
    TENURE(tnr_free(block));
    if (the.is_wrong)
        (void)block_make();
    order();
}

/* Memory that is free may leave the process. */
static void ordered_before_trim(void)
{
    size_t released;
    void *block = block_make();
    block_use(block);
    TENURE(tnr_free(block));
    if (the.is_wrong)
        TENURE(tnr_trim(&released, 0, 0));
    order();
}

/* The program ends, and nobody has asked for memory. */
static void nothing_follows(void)
{
    void *block = block_make();
    block_use(block);
    TENURE(tnr_free(block));
    if (!the.is_wrong)
        order();
    MUST(cuCtxSynchronize());
    exit(0);
}

static void use_after_free(void)
{
    void *block = block_make();
    if (the.is_wrong)
        TENURE(tnr_free(block));
    block_use(block);
    if (!the.is_wrong)
        TENURE(tnr_free_on(block, the.b));
}

static void double_free(void)
{
    void *block = block_make();
    TENURE(tnr_free(block));
    if (the.is_wrong && library.tnr_free(block) != TNR_ERR_NOT_LIVE)
        exit(1);
}

/* The stream has ended, and another may have its handle. */
static void ended_stream(void)
{
    CUstream own;
    void *block;
    MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    TENURE(tnr_malloc(&block, BYTES, 0, own));
    MUST(cuEventRecord(the.event, own));
    MUST(cuStreamWaitEvent(the.b, the.event, 0));
    MUST(cuMemsetD8Async((CUdeviceptr)block, 2, BYTES, the.b));
    if (!the.is_wrong)
        TENURE(tnr_record_use(block, the.b));
    if (tnr_stream_destroying(0, own) != TNR_OK)
        exit(1);
    MUST(cuStreamDestroy(own));
    TENURE(tnr_free(block));
}

/* Of a vouched pool the caller orders everything: both are right. */
static void vouched(void)
{
    tnr_pool pool;
    void *block;
    TENURE(tnr_vouched_pool_create(&pool, 0, NULL));
    TENURE(tnr_pool_malloc(&block, pool, BYTES, 0, the.a));
    block_use(block);
    TENURE(tnr_free(block));
}

/* Where a block was, and was used after its free, is a growable one now: nothing is left of what
 * was known of the addresses. */
static void reserved(void)
{
    void *block, *grown;
    size_t released;
    TENURE(tnr_malloc(&block, LARGE_BYTES, 0, the.a));
    TENURE(tnr_free(block));
    MUST(cuMemsetD8Async((CUdeviceptr)block, 1, BYTES, the.a));
    MUST(cuCtxSynchronize());
    TENURE(tnr_trim(&released, 0, 0));
    TENURE(tnr_reserve(&grown, LARGE_BYTES, 0, the.a));
    if (grown != block) {
        fprintf(stderr, "the growable block is at %p, not at %p\n", grown, block);
        exit(1);
    }
    TENURE(tnr_commit(grown, BYTES));
    MUST(cuMemsetD8Async((CUdeviceptr)grown, 1, BYTES, the.a));
    block_use(grown);
    TENURE(tnr_free(grown));
}

/* A stream that had all memory so far uses a growable block of another one's. */
static void reserved_by_another(void)
{
    void *first, *grown;
    TENURE(tnr_malloc(&first, BYTES, 0, the.b));
    TENURE(tnr_reserve(&grown, LARGE_BYTES, 0, the.a));
    TENURE(tnr_commit(grown, BYTES));
    MUST(cuMemsetD8Async((CUdeviceptr)grown, 1, BYTES, the.a));
    block_use(grown);
    TENURE(tnr_free(grown));
}

/* A graph that was captured through Tenure keeps what it refers to: both are right. */
static void graph(void)
{
    CUgraph made;
    CUgraphExec exec;
    void *block = block_make();
    tnr_graph number;
    MUST(cuStreamSynchronize(the.a));
    TENURE(tnr_capture_begin(0, the.b, NULL));
    MUST(cuMemsetD8Async((CUdeviceptr)block, 2, BYTES, the.b));
    TENURE(tnr_capture_end(&made, &number, 0, the.b));
    MUST(cuGraphInstantiateWithFlags(&exec, made, 0));
    TENURE(tnr_free(block));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamSynchronize(the.b));
}

/* ---- imports -------------------------------------------------------------------------------- */

enum { OTHER_SOCKET = 3 }; /* the exporter's descriptor */

static char way[16]; /* receive, open or attach */
static const char published[] = "check_engine";

/* Its first block lies where that of every process does. It is there until the socket ends. */
static void export_one(void)
{
    void *block;
    tnr_export exported;
    tnr_export_name name = {{0}};
    tnr_status status;
    int is_sent = strcmp(way, "receive") == 0;
    TENURE(tnr_malloc(&block, LARGE_BYTES, 0, the.a));
    if (is_sent)
        status = tnr_export_create(&exported, block);
    else if (strcmp(way, "open") == 0)
        status = tnr_export_offer(&name, block);
    else
        status = tnr_publish(NULL, published, block, NULL);
    if (status == TNR_OK && is_sent)
        status = tnr_export_send(exported, OTHER_SOCKET);
    if (status != TNR_OK) {
        fprintf(stderr, "the exporter: %s\n", tnr_last_error());
        exit(1);
    }
    if (!is_sent && write(OTHER_SOCKET, &name, sizeof(name)) != sizeof(name))
        exit(1);
    while (read(OTHER_SOCKET, &name, 1) > 0) {}
}

static pid_t exporter_start(int *mine)
{
    int ends[2];
    pid_t process;
    posix_spawn_file_actions_t actions;
    char name[] = "check_engine", role[] = "exporter", *arguments[] = {name, role, way, NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], OTHER_SOCKET) != 0 ||
        posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        exit(1);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *mine = ends[0];
    return process;
}

/* For reading alone: what is attached allows no more. */
static void block_read(const void *block)
{
    static char read_to[4096];
    MUST(cuMemcpyDtoHAsync(read_to, (CUdeviceptr)block, sizeof(read_to), the.a));
}

/* The other process's block, where it has it. */
static void *import_one(int from)
{
    tnr_export_name name;
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    options.same_address = 1;
    if (strcmp(way, "receive") == 0) {
        TENURE(tnr_import_receive(&info, from, 0, &options));
        return info.ptr;
    }
    if (read(from, &name, sizeof(name)) != sizeof(name))
        exit(1);
    if (strcmp(way, "open") == 0)
        TENURE(tnr_import_open(&info, &name, 0, &options));
    else
        TENURE(tnr_attach(&info, published, 0, &options));
    return info.ptr;
}

/* A launch of both(from, end). */
static void range_use(const void *from, const void *end)
{
    CUmodule module;
    CUfunction function;
    void *parameters[] = {&from, &end};
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&function, module, "both"));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, the.a, parameters, NULL));
}

/* A block that lies behind other memory, and is freed. */
static void *block_behind(const void *memory)
{
    void *block;
    TENURE(tnr_malloc(&block, LARGE_BYTES, 0, the.a));
    if (block != (const char *)memory + LARGE_BYTES) {
        fprintf(stderr, "the block at %p is not behind %p\n", block, memory);
        exit(1);
    }
    TENURE(tnr_free(block));
    return block;
}

/* Where a growable block may grow to, a block was. Wrong: another one's end is there. */
static void range_reserved(void)
{
    void *grown[2];
    for (int i = 0; i < 2; i++) {
        TENURE(tnr_reserve(&grown[i], LARGE_BYTES, 0, the.a));
        TENURE(tnr_commit(grown[i], BYTES));
    }
    range_use(grown[!the.is_wrong], block_behind(grown[1]));
    MUST(cuCtxSynchronize());
    TENURE(tnr_free(grown[0]));
    TENURE(tnr_free(grown[1]));
}

/* An import lies where a block was that is freed. Wrong: it is used without one. */
static void imported(const char *by, int is_range)
{
    int status, from;
    size_t released;
    void *block;
    snprintf(way, sizeof(way), "%s", by);
    TENURE(tnr_malloc(&block, LARGE_BYTES, 0, the.a));
    const void *end = block_behind(block);
    TENURE(tnr_free(block));
    if (the.is_wrong) {
        block_read(block);
        return;
    }
    pid_t other = exporter_start(&from);
    TENURE(tnr_trim(&released, 0, 0));
    void *there = import_one(from);
    if (there != block) {
        fprintf(stderr, "the import is at %p, not at %p\n", there, block);
        exit(1);
    }
    if (is_range)
        range_use(there, end);
    else
        block_read(there);
    TENURE(tnr_import_close(there));
    (void)close(from);
    if (waitpid(other, &status, 0) != other || status != 0)
        exit(1);
}

static void import_received(void)
{
    imported("receive", 0);
}

static void import_opened(void)
{
    imported("open", 0);
}

static void import_attached(void)
{
    imported("attach", 0);
}

/* The end of an import is where a block was. */
static void range_imported(void)
{
    imported("receive", 1);
}

/* ---- the end of a device -------------------------------------------------------------------- */

/* Memory of the driver's lies where a block was, and the device has ended in between. Wrong: it is
 * used before that. */
static void ended_device(void)
{
    CUdeviceptr base;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = kind.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    void *block;
    TENURE(tnr_malloc(&block, LARGE_BYTES, 0, the.a));
    TENURE(tnr_free(block));
    if (the.is_wrong) {
        block_use(block);
        return;
    }
    TENURE(tnr_device_end(0, 0));
    MUST(cuMemAddressReserve(&base, LARGE_BYTES, 0, (CUdeviceptr)block, 0));
    MUST(cuMemCreate(&memory, LARGE_BYTES, &kind, 0));
    MUST(cuMemMap(base, LARGE_BYTES, 0, memory, 0));
    MUST(cuMemSetAccess(base, LARGE_BYTES, &access, 1));
    if (base != (CUdeviceptr)block) {
        fprintf(stderr, "the driver's memory is not at %p\n", block);
        exit(1);
    }
    block_use(block);
    MUST(cuCtxSynchronize());
}

/* ---- frames of a script --------------------------------------------------------------------- */

static int is_script; /* 0: C alone runs, as in a thread of an engine's own */

static size_t frames_take(uintptr_t *frames, size_t room)
{
    if (!is_script || room == 0)
        return 0;
    frames[0] = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1);
    return 1;
}

static void frame_describe(tnr_frame_info *info, uintptr_t frame)
{
    (void)frame;
    *info = (tnr_frame_info){"offload", "script.py", 7};
}

static void script_begin(int has_frames)
{
    is_script = has_frames;
    TENURE(tnr_frames_source_set(frames_take, frame_describe));
}

/* One line of a script, run twice. The interpreter has specialised it in between. */
static void script_line(void)
{
    script_begin(1);
    interpreter_first(record_use);
    interpreter_second(record_use);
}

static void call_first(void)
{
    extension_first(record_use);
}

/* From one library, and, when that is gone, from another that lies where it lay. */
static void reloaded(void)
{
    static const char *const names[] = {"CHECK_FIRST", "CHECK_SECOND"};
    for (int i = 0; i < 2; i++) {
        void (*first)(void (*)(void));
        void *handle = dlopen(getenv(names[i]), RTLD_NOW | RTLD_LOCAL), *found;
        if (handle == NULL)
            exit(1);
        found = dlsym(handle, "extension_first");
        memcpy(&first, &found, sizeof(first));
        first(i == 0 ? record_use : use_after_free);
        (void)block_make(); /* gets the memory, while the frames are there */
        if (dlclose(handle) != 0)
            exit(1);
    }
}

static void call_second(void)
{
    extension_second(record_use);
}

/* One line of a script that calls two functions of a module. */
static void script_line_of_two_calls(void)
{
    script_begin(1);
    interpreter_first(call_first);
    interpreter_first(call_second);
}

/* The same interpreter, where no script runs. */
static void no_script(void)
{
    script_begin(0);
    interpreter_first(record_use);
    interpreter_second(record_use);
}

/* Between two launches an engine allocates and frees: each question to the driver costs it. */
static void driver_is_not_asked(void)
{
    (void)block_make();
    uint64_t asked = simcuda_calls("cuStreamIsCapturing");
    for (int i = 0; i < 8; i++)
        TENURE(tnr_free(block_make()));
    if (simcuda_calls("cuStreamIsCapturing") != asked)
        exit(1);
}

/* The program dies. Its last launch names memory that cuMemFreeAsync was given, and that is the
 * engine's own by then. */
static void dies_after_a_launch(void)
{
    CUdeviceptr block;
    void *own = NULL;
    MUST(cuMemAllocAsync(&block, BYTES, the.a));
    MUST(cuMemFreeAsync(block, the.a));
    for (int i = 0; i < 64 && (CUdeviceptr)own != block; i++)
        TENURE(tnr_malloc(&own, BYTES, 0, the.a));
    if ((CUdeviceptr)own != block)
        exit(1);
    range_use(own, own);
    abort();
}

/* A graph whose node records the event: it gets to know of it in one of seven ways. */
static CUgraphExec exec_of(int which, CUevent event)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    params.eventRecord.event = event;
    MUST(cuStreamBeginCapture(the.c, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (which == 0)
        MUST(cuEventRecordWithFlags(event, the.c, CU_EVENT_RECORD_EXTERNAL));
    MUST(cuStreamEndCapture(the.c, &graph));
    if (which == 1)
        MUST(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    else if (which > 1)
        MUST(cuGraphAddEventRecordNode(&node, graph, NULL, 0, which == 2 ? event : the.event));
    if (which == 3)
        MUST(cuGraphEventRecordNodeSetEvent(node, event));
    else if (which == 4)
        MUST(cuGraphNodeSetParams(node, &params));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    if (which == 5)
        MUST(cuGraphExecEventRecordNodeSetEvent(exec, node, event));
    else if (which == 6)
        MUST(cuGraphExecNodeSetParams(exec, node, &params));
    return exec;
}

/* The event is recorded after the use of a block, and once more by the graph. */
static void event_of_a_graph(void)
{
    for (int which = 0; which < 7; which++) {
        CUevent event;
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CUgraphExec exec = exec_of(which, event);
        void *block = block_make();
        block_use(block);
        TENURE(tnr_record_use(block, the.b));
        MUST(cuEventRecord(event, the.b));
        MUST(cuGraphLaunch(exec, the.c));
        MUST(the.is_wrong ? cuEventSynchronize(event) : cuStreamWaitEvent(the.a, event, 0));
        TENURE(tnr_free(block));
        (void)block_make();
    }
}

/* A kernel is launched that records the event as it begins. */
static void launch_recording(CUevent event, CUlaunchAttributeID which)
{
    CUmodule module;
    CUfunction function;
    const void *nothing = NULL;
    void *parameters[] = {&nothing, &nothing};
    CUlaunchAttribute attribute = {.id = which};
    if (which == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        attribute.value.programmaticEvent.event = event;
    else
        attribute.value.launchCompletionEvent.event = event;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, the.c, &attribute, 1};
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&function, module, "both"));
    MUST(cuLaunchKernelEx(&config, function, parameters, NULL));
}

/* The event is recorded after the use of a block, and once more by a launch. */
static void event_of_a_launch(void)
{
    static const CUlaunchAttributeID kinds[] = {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                                                CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    for (int which = 0; which < 2; which++) {
        CUevent event;
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        void *block = block_make();
        block_use(block);
        TENURE(tnr_record_use(block, the.b));
        MUST(cuEventRecord(event, the.b));
        launch_recording(event, kinds[which]);
        MUST(the.is_wrong ? cuEventSynchronize(event) : cuStreamWaitEvent(the.a, event, 0));
        TENURE(tnr_free(block));
        (void)block_make();
    }
}

/* ---- the program ---------------------------------------------------------------------------- */

static void both_run(void *const *parameters)
{
    (void)parameters;
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"host_buffer", host_buffer},
    {"host_polls", host_polls},
    {"host_reused", host_reused},
    {"record_use", record_use},
    {"named", named},
    {"record_use_too_early", record_use_too_early},
    {"record_stream", record_stream},
    {"keep_until", keep_until},
    {"free_on", free_on},
    {"free_sync", free_sync},
    {"ordered", ordered},
    {"ordered_in_time", ordered_in_time},
    {"ordered_before_trim", ordered_before_trim},
    {"nothing_follows", nothing_follows},
    {"use_after_free", use_after_free},
    {"double_free", double_free},
    {"ended_stream", ended_stream},
    {"script_line", script_line},
    {"script_line_of_two_calls", script_line_of_two_calls},
    {"no_script", no_script},
    {"reloaded", reloaded},
    {"driver_is_not_asked", driver_is_not_asked},
    {"dies_after_a_launch", dies_after_a_launch},
    {"event_of_a_graph", event_of_a_graph},
    {"event_of_a_launch", event_of_a_launch},
    {"vouched", vouched},
    {"reserved", reserved},
    {"reserved_by_another", reserved_by_another},
    {"import_received", import_received},
    {"import_opened", import_opened},
    {"import_attached", import_attached},
    {"range_reserved", range_reserved},
    {"range_imported", range_imported},
    {"ended_device", ended_device},
    {"graph", graph},
    {"exporter", export_one},
};

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    the.is_wrong = strcmp(argv[2], "wrong") == 0;
    snprintf(way, sizeof(way), "%s", argv[2]);
    static const size_t both_bytes[] = {8, 8};
    if (argc > 3)
        functions_find();
    if (simcuda_kernel_register("both", 2, both_bytes, both_run, NULL) != 0)
        exit(1);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&the.context, 0));
    MUST(cuCtxSetCurrent(the.context));
    MUST(cuStreamCreate(&the.a, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.b, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.c, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&the.event, CU_EVENT_DISABLE_TIMING));
    if (tnr_stream_created(0, the.a) != TNR_OK || tnr_stream_created(0, the.b) != TNR_OK ||
        tnr_stream_created(0, the.c) != TNR_OK)
        exit(1);
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (strcmp(programs[i].name, argv[1]) != 0)
            continue;
        programs[i].run();
        /* Whoever is handed memory now writes over what was there. */
        for (int k = 0; k < 4; k++)
            (void)block_make();
        MUST(cuCtxSynchronize());
        return 0;
    }
    return 2;
}
