/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles: what a driver makes of handles that it never gave out, or that are gone.
 *
 *   handles [DRIVER] [--json]     DRIVER: cuda (libcuda.so.1), or a path; default cuda
 *
 * Every entry point to which Tenure passes a caller's stream, event, graph or executable is called
 * with every value, each time in a process of its own that starts the driver itself, so that one
 * that dies takes nothing with it. A cell is the driver's answer, the signal that the process died
 * of, or "hangs". The last value is a good one: it says that the call was made right. Nothing is
 * judged but that; what Tenure relies on is in docs/errors.md, "Handles of CUDA".
 *
 * Exit codes: 0 the table is complete; 1 a good handle was refused; 2 wrong usage; 77 no driver or
 * no device.
 */
#include "../../conformance/child.h"
#include "../../conformance/driver.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIMIT_S = 20, NOT_THERE = 250, NOT_STARTED = 251, HANDLE_BYTES = 4096 };

typedef enum kind { STREAM, EVENT, GRAPH, EXEC, KINDS } kind;

static const char *const kind_names[KINDS] = {"stream", "event", "graph", "executable"};

typedef enum value {
    THREE,      /* small numbers: no address */
    FIFTY_FIVE, /* odd, and in the first page */
    MINUS_ONE,
    UNALIGNED,  /* an odd address inside readable zeros */
    UNMAPPED,   /* a page that was mapped and is not any more */
    UNREADABLE, /* a page without access */
    ZEROS,      /* a readable page of zeros */
    ONES,       /* a readable page of 0xff */
    FREED,      /* of the C library's heap, freed */
    OTHER,      /* a good handle of another kind */
    DESTROYED,  /* of the same kind, a moment ago */
    LONG_GONE,  /* of the same kind, with a hundred made and destroyed since */
    GOOD,
    VALUES
} value;

static const char *const value_names[VALUES] = {
    "0x3",  "0x55",       "-1",         "odd address", "unmapped",       "no access", "zeros",
    "ones", "freed heap", "other kind", "destroyed",   "long destroyed", "good"};

/* ---- making handles ------------------------------------------------------------------------- */

/* One of each kind, good. */
typedef struct things {
    void *made[KINDS];
} things;

static void *thing_make(kind what)
{
    void *made = NULL;
    CUgraph graph = NULL;
    int good = 1;
    switch (what) {
    case STREAM:
        good = cu.StreamCreate((CUstream *)&made, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
        break;
    case EVENT:
        good = cu.EventCreate((CUevent *)&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
        break;
    case GRAPH:
        good = cu.GraphCreate((CUgraph *)&made, 0) == CUDA_SUCCESS;
        break;
    default:
        good = cu.GraphCreate(&graph, 0) == CUDA_SUCCESS &&
               cu.GraphInstantiateWithFlags((CUgraphExec *)&made, graph, 0) == CUDA_SUCCESS;
        break;
    }
    if (!good)
        _exit(NOT_STARTED);
    return made;
}

static void thing_destroy(kind what, void *made)
{
    CUresult result = what == STREAM  ? cu.StreamDestroy(made)
                      : what == EVENT ? cu.EventDestroy(made)
                      : what == GRAPH ? cu.GraphDestroy(made)
                                      : cu.GraphExecDestroy(made);
    if (result != CUDA_SUCCESS)
        _exit(NOT_STARTED);
}

static char *page_make(int filled, int protection)
{
    char *page =
        mmap(NULL, HANDLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        _exit(NOT_STARTED);
    memset(page, filled, HANDLE_BYTES);
    if (mprotect(page, HANDLE_BYTES, protection) != 0)
        _exit(NOT_STARTED);
    return page;
}

/* One that is gone, with `others` of all kinds made and destroyed since: one of them may have had
 * the handle. */
static void *gone_make(kind what, int others)
{
    enum { OTHERS_MAX = 100 };
    void *other[OTHERS_MAX];
    void *gone = thing_make(what);
    thing_destroy(what, gone);
    for (int i = 0; i < others; i++)
        other[i] = thing_make((kind)(i % KINDS));
    for (int i = 0; i < others; i++)
        thing_destroy((kind)(i % KINDS), other[i]);
    return gone;
}

static void *value_make(value which, kind what, const things *good)
{
    const int both = PROT_READ | PROT_WRITE;
    char *page = NULL;
    void *heap = NULL;
    switch (which) {
    case THREE:
        return (void *)(uintptr_t)3;
    case FIFTY_FIVE:
        return (void *)(uintptr_t)0x55;
    case MINUS_ONE:
        return (void *)UINTPTR_MAX;
    case UNALIGNED:
        return page_make(0, both) + 129;
    case UNMAPPED:
        page = page_make(0, both);
        (void)munmap(page, HANDLE_BYTES);
        return page;
    case UNREADABLE:
        return page_make(0, PROT_NONE);
    case ZEROS:
        return page_make(0, both);
    case ONES:
        return page_make(0xff, both);
    case FREED:
        heap = malloc(2000);
        page = heap; /* the number outlives what it points at, on purpose */
        __asm__ volatile("" : "+r"(page));
        free(heap);
        return page;
    case OTHER:
        return good->made[(what + 1) % KINDS];
    case DESTROYED:
        return gone_make(what, 0);
    case LONG_GONE:
        return gone_make(what, 100);
    default:
        return good->made[what];
    }
}

/* ---- the calls ------------------------------------------------------------------------------ */

static CUresult ask_id(void *handle, const things *good)
{
    unsigned long long id = 0;
    (void)good;
    return cu.StreamGetId(handle, &id);
}

static CUresult ask_capturing(void *handle, const things *good)
{
    CUstreamCaptureStatus status;
    (void)good;
    return cu.StreamIsCapturing(handle, &status);
}

static CUresult ask_flags(void *handle, const things *good)
{
    unsigned flags = 0;
    (void)good;
    return cu.StreamGetFlags(handle, &flags);
}

static CUresult ask_context(void *handle, const things *good)
{
    CUcontext context = NULL;
    (void)good;
    return cu.StreamGetCtx(handle, &context);
}

static CUresult ask_capture(void *handle, const things *good)
{
    CUstreamCaptureStatus status;
    (void)good;
    return cu.StreamGetCaptureInfo(handle, &status, NULL, NULL, NULL, NULL, NULL);
}

static CUresult record_on(void *handle, const things *good)
{
    return cu.EventRecord(good->made[EVENT], handle);
}

static CUresult wait_on(void *handle, const things *good)
{
    return cu.StreamWaitEvent(handle, good->made[EVENT], 0);
}

static CUresult begin_on(void *handle, const things *good)
{
    (void)good;
    return cu.StreamBeginCapture(handle, CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* Of a stream that does not capture: a good one gives CUDA_ERROR_ILLEGAL_STATE. */
static CUresult end_on(void *handle, const things *good)
{
    CUgraph graph = NULL;
    (void)good;
    CUresult result = cu.StreamEndCapture(handle, &graph);
    return result;
}

static CUresult launch_on(void *handle, const things *good)
{
    return cu.GraphLaunch(good->made[EXEC], handle);
}

static CUresult wait_for(void *handle, const things *good)
{
    return cu.StreamWaitEvent(good->made[STREAM], handle, 0);
}

static CUresult get_nodes(void *handle, const things *good)
{
    size_t count = 0;
    (void)good;
    return cu.GraphGetNodes(handle, NULL, &count);
}

static void CUDA_CB ignore(void *data)
{
    (void)data;
}

static CUresult retain_for(void *handle, const things *good)
{
    static int data;
    CUuserObject object = NULL;
    (void)good;
    if (cu.UserObjectCreate(&object, &data, ignore, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) !=
        CUDA_SUCCESS)
        _exit(NOT_STARTED);
    return cu.GraphRetainUserObject(handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
}

static CUresult launch_of(void *handle, const things *good)
{
    return cu.GraphLaunch(handle, good->made[STREAM]);
}

/* Not Tenure's: what a program's own second destruction gives. */
static CUresult destroy_stream(void *handle, const things *good)
{
    (void)good;
    return cu.StreamDestroy(handle);
}

typedef struct call {
    const char *name;
    kind what;
    CUresult (*make)(void *handle, const things *good);
    CUresult of_good;
} call;

static const call calls[] = {
    {"cuStreamGetId", STREAM, ask_id, CUDA_SUCCESS},
    {"cuStreamIsCapturing", STREAM, ask_capturing, CUDA_SUCCESS},
    {"cuStreamGetFlags", STREAM, ask_flags, CUDA_SUCCESS},
    {"cuStreamGetCtx", STREAM, ask_context, CUDA_SUCCESS},
    {"cuStreamGetCaptureInfo", STREAM, ask_capture, CUDA_SUCCESS},
    {"cuEventRecord", STREAM, record_on, CUDA_SUCCESS},
    {"cuStreamWaitEvent", STREAM, wait_on, CUDA_SUCCESS},
    {"cuStreamBeginCapture", STREAM, begin_on, CUDA_SUCCESS},
    {"cuStreamEndCapture", STREAM, end_on, CUDA_ERROR_ILLEGAL_STATE},
    {"cuGraphLaunch", STREAM, launch_on, CUDA_SUCCESS},
    {"cuStreamDestroy", STREAM, destroy_stream, CUDA_SUCCESS},
    {"cuStreamWaitEvent", EVENT, wait_for, CUDA_SUCCESS},
    {"cuGraphGetNodes", GRAPH, get_nodes, CUDA_SUCCESS},
    {"cuGraphRetainUserObject", GRAPH, retain_for, CUDA_SUCCESS},
    {"cuGraphLaunch", EXEC, launch_of, CUDA_SUCCESS},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- one cell ------------------------------------------------------------------------------- */

typedef struct attempt {
    const char *driver;
    const call *what;
    value which;
    CUresult *result; /* shared with the child */
} attempt;

static void driver_start(const char *driver)
{
    int devices = 0;
    CUcontext context = NULL;
    if (driver_load(driver) != NULL)
        _exit(NOT_THERE);
    if (cu.Init(0) != CUDA_SUCCESS || cu.DeviceGetCount(&devices) != CUDA_SUCCESS || devices == 0)
        _exit(NOT_THERE);
    if (cu.DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cu.CtxSetCurrent(context) != CUDA_SUCCESS)
        _exit(NOT_STARTED);
}

static void attempt_main(const void *argument)
{
    const attempt *self = argument;
    things good;
    driver_start(self->driver);
    for (int what = 0; what < KINDS; what++)
        good.made[what] = thing_make((kind)what);
    void *handle = value_make(self->which, self->what->what, &good);
    *self->result = self->what->make(handle, &good);
    _exit(0); /* nothing that the driver does at an end of its own */
}

typedef struct cell {
    CUresult result;
    int signal;
    int hung;
} cell;

static cell cells[CALLS][VALUES];

/* 0, or the exit code to end with. */
static int cell_find(const char *driver, size_t at, value which, CUresult *shared)
{
    struct child_end end;
    const attempt self = {driver, &calls[at], which, shared};
    char name[96];
    *shared = CUDA_ERROR_UNKNOWN;
    snprintf(name, sizeof(name), "%s of %s", calls[at].name, value_names[which]);
    if (!child_run(name, attempt_main, &self, LIMIT_S, &end)) {
        perror("handles: fork");
        return 2;
    }
    if (end.code == NOT_THERE) {
        printf("skipped: %s is no driver with a device here\n", driver);
        return 77;
    }
    if (end.code == NOT_STARTED) {
        fprintf(stderr, "handles: %s: the driver refused what every program does first\n", name);
        return 1;
    }
    cells[at][which] = (cell){*shared, end.signal, end.hung};
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const char *cell_text(const cell *of)
{
    static char text[64];
    const char *name = NULL;
    if (of->hung)
        return "hangs";
    if (of->signal != 0) {
        snprintf(text, sizeof(text), "SIG%s", sigabbrev_np(of->signal));
        return text;
    }
    if (cu.GetErrorName(of->result, &name) != CUDA_SUCCESS || name == NULL) {
        snprintf(text, sizeof(text), "%d", (int)of->result);
        return text;
    }
    return strncmp(name, "CUDA_", 5) == 0 ? name + 5 : name;
}

static void print_json(const char *driver)
{
    printf("{\"driver\": \"%s\", \"calls\": [", driver);
    for (size_t i = 0; i < CALLS; i++) {
        printf("%s\n  {\"call\": \"%s\", \"handle\": \"%s\"", i == 0 ? "" : ",", calls[i].name,
               kind_names[calls[i].what]);
        for (int v = 0; v < VALUES; v++)
            printf(", \"%s\": \"%s\"", value_names[v], cell_text(&cells[i][v]));
        printf("}");
    }
    printf("\n]}\n");
}

static void print_text(void)
{
    for (size_t i = 0; i < CALLS; i++) {
        printf("%s, %s\n", calls[i].name, kind_names[calls[i].what]);
        for (int v = 0; v < VALUES; v++)
            printf("    %-16s %s\n", value_names[v], cell_text(&cells[i][v]));
    }
}

/* 1 if a good handle did not give what it must. */
static int good_refused(void)
{
    int refused = 0;
    for (size_t i = 0; i < CALLS; i++) {
        const cell *of = &cells[i][GOOD];
        if (!of->hung && of->signal == 0 && of->result == calls[i].of_good)
            continue;
        fprintf(stderr, "handles: %s of a good %s: %s\n", calls[i].name, kind_names[calls[i].what],
                cell_text(of));
        refused = 1;
    }
    return refused;
}

int main(int argc, char **argv)
{
    const char *driver = "libcuda.so.1";
    int is_json = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            is_json = 1;
        } else if (argv[i][0] != '-') {
            driver = strcmp(argv[i], "cuda") == 0 ? driver : argv[i];
        } else {
            fputs("usage: handles [DRIVER] [--json]\n", stderr);
            return 2;
        }
    }
    CUresult *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    child_watch();
    for (size_t i = 0; i < CALLS; i++)
        for (int v = 0; v < VALUES; v++) {
            int code = cell_find(driver, i, (value)v, shared);
            if (code != 0)
                return code;
        }
    if (driver_load(driver) != NULL) /* for the names of errors alone: it is not started */
        return 2;
    if (is_json)
        print_json(driver);
    else
        print_text();
    return good_refused();
}
