/* SPDX-License-Identifier: Apache-2.0 */
/* See random.h. */
#include "random.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 160, STREAMS = 3, IMPORTS = 6, NAMES = 3, MARKED_BYTES = 256 << 10 };

typedef struct block {
    unsigned char *ptr;
    size_t bytes;
    unsigned char mark;
    uint8_t stream;
    uint8_t is_worked_on; /* work that is queued writes the mark, again; on this stream: */
    uint8_t worker;
} block;

static struct {
    uint64_t random, operation;
    int is_refused; /* the driver may refuse calls */
    int is_full;    /* there is no room for files */
    unsigned char marks_last;
    CUcontext context;
    CUstream streams[STREAMS]; /* the first is the default one */
    tnr_pool shared, own;
    block blocks[BLOCKS];
    tnr_import_info imports[IMPORTS];
    int is_asleep;
} self;

static const char *const names[NAMES] = {"one", "two", "three"};

static uint64_t draw(uint64_t below)
{
    uint64_t z = (self.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static void broken(const char *what)
{
    fprintf(stderr, "process %d, operation %llu: %s\n", (int)getpid(),
            (unsigned long long)self.operation, what);
    _exit(9);
}

/* A status is success, or one of those in `may`: bits by their numbers. */
static tnr_status allowed(tnr_status status, uint64_t may, const char *call)
{
    char text[2048];
    if (self.is_refused)
        may |= UINT64_C(1) << TNR_ERR_DRIVER | UINT64_C(1) << TNR_ERR_OUT_OF_MEMORY |
               UINT64_C(1) << TNR_ERR_TRANSPORT;
    if (status == TNR_OK || (may >> status & 1) != 0)
        return status;
    snprintf(text, sizeof(text), "%s: %s", call, tnr_last_error());
    broken(text);
    return status;
}

#define BIT(name) (UINT64_C(1) << TNR_ERR_##name)
#define SHORT (BIT(OUT_OF_MEMORY) | BIT(LIMIT))

static void must(CUresult result)
{
    if (result != CUDA_SUCCESS && !self.is_refused)
        broken("the driver refused a call of the test");
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void block_mark(block *at)
{
    at->mark = ++self.marks_last;
    for (size_t i = 0; i < at->bytes; i += MARKED_BYTES)
        at->ptr[i] = at->mark;
    at->ptr[at->bytes - 1] = at->mark;
}

static void changed(const block *at, size_t offset)
{
    char text[160];
    snprintf(text, sizeof(text), "byte %zu of %zu at %p, stream %u, is %u, and was %u", offset,
             at->bytes, (void *)at->ptr, at->stream, at->ptr[offset], at->mark);
    broken(text);
}

static void block_check(const block *at)
{
    for (size_t i = 0; i < at->bytes; i += MARKED_BYTES)
        if (at->ptr[i] != at->mark)
            changed(at, i);
    if (at->ptr[at->bytes - 1] != at->mark)
        changed(at, at->bytes - 1);
}

static size_t bytes_draw(void)
{
    switch (draw(8)) {
    case 0:
        return 1 + draw(6 * MIB);
    case 1:
    case 2:
        return 1 + draw(MIB);
    default:
        return 1 + draw(32 << 10);
    }
}

static void block_malloc(block *at)
{
    void *ptr = NULL;
    size_t bytes = bytes_draw();
    uint8_t stream = (uint8_t)draw(STREAMS);
    tnr_pool pool = draw(4) == 0 ? self.own : NULL;
    tnr_status status =
        allowed(tnr_pool_malloc(&ptr, pool, bytes, 0, self.streams[stream]), SHORT, "tnr_malloc");
    if (status != TNR_OK)
        return;
    /* Former work on these bytes may still be queued: it comes before this work, and only before
     * work is a stream ordered after the default one. */
    *at = (block){.ptr = ptr, .bytes = bytes, .stream = stream};
    must(cuMemsetD8Async((uintptr_t)ptr, 0, bytes, self.streams[stream]));
    must(cuStreamSynchronize(self.streams[stream]));
    block_mark(at);
}

static void block_free(block *at)
{
    if (!at->is_worked_on)
        block_check(at);
    if (allowed(tnr_free(at->ptr), 0, "tnr_free") == TNR_OK)
        at->ptr = NULL;
}

/* Writes the same bytes again, by its own stream or by another one that then has a use of it. */
static void block_work(block *at)
{
    uint8_t stream = draw(2) == 0 ? at->stream : (uint8_t)draw(STREAMS);
    size_t bytes = at->bytes < 4096 ? at->bytes : 4096;
    if (at->is_worked_on && at->worker != stream)
        must(cuStreamSynchronize(self.streams[at->worker]));
    must(cuMemsetD8Async((uintptr_t)at->ptr, at->mark, bytes, self.streams[stream]));
    at->worker = stream;
    if (stream != at->stream &&
        allowed(tnr_record_use(at->ptr, self.streams[stream]), 0, "tnr_record_use") != TNR_OK)
        must(cuStreamSynchronize(self.streams[stream])); /* a use that is not known must be over */
    at->is_worked_on = 1;
}

static void all_wait(void)
{
    must(cuCtxSynchronize());
    for (unsigned i = 0; i < BLOCKS; i++)
        self.blocks[i].is_worked_on = 0;
}

/* ---- what is published ---------------------------------------------------------------------- */

/* What stands at the begin of such a block, and again at its end. */
typedef struct sign {
    uint64_t tag, bytes, check;
} sign;

static uint64_t check_of(const sign *at)
{
    return (at->tag ^ UINT64_C(0x74656e757265)) * (at->bytes | 1);
}

static void publish(void)
{
    void *ptr = NULL;
    size_t bytes = sizeof(sign) * 2 + draw(3 * MIB) / 8 * 8;
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    if (allowed(tnr_pool_malloc(&ptr, self.shared, bytes, 0, NULL), SHORT, "tnr_pool_malloc") !=
        TNR_OK)
        return;
    sign made = {.tag = draw(UINT64_MAX), .bytes = bytes};
    made.check = check_of(&made);
    memcpy(ptr, &made, sizeof(made));
    memcpy((char *)ptr + bytes - sizeof(made), &made, sizeof(made));
    options.replace = (int)draw(2);
    options.older_max = 1 + (uint32_t)draw(4);
    options.yields = (int)draw(2);
    (void)allowed(tnr_publish(NULL, names[draw(NAMES)], ptr, &options),
                  BIT(BUSY) | BIT(TRANSPORT) | (self.is_full ? BIT(FILE) : 0), "tnr_publish");
    (void)allowed(tnr_free(ptr), 0, "tnr_free");
}

static void import_check(const tnr_import_info *at, const char *when)
{
    sign first, last;
    char text[600];
    memcpy(&first, at->ptr, sizeof(first));
    memcpy(&last, (char *)at->ptr + at->bytes - sizeof(last), sizeof(last));
    if (first.bytes == at->bytes && first.check == check_of(&first) &&
        memcmp(&first, &last, sizeof(first)) == 0)
        return;
    snprintf(text, sizeof(text),
             "what was attached is not what was published, %s: \"%s\", generation %llu of process "
             "%d, %zu bytes at %p; it begins with %llx %llu %llx and ends with %llx %llu %llx",
             when, at->published, (unsigned long long)at->generation, at->process, at->bytes,
             at->ptr, (unsigned long long)first.tag, (unsigned long long)first.bytes,
             (unsigned long long)first.check, (unsigned long long)last.tag,
             (unsigned long long)last.bytes, (unsigned long long)last.check);
    broken(text);
}

static void import_toggle(tnr_import_info *at)
{
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    if (at->ptr != NULL) {
        import_check(at, "before its close");
        if (allowed(tnr_import_close(at->ptr), 0, "tnr_import_close") == TNR_OK)
            at->ptr = NULL; /* else it is still open */
        return;
    }
    *at = (tnr_import_info){.struct_bytes = sizeof(*at)};
    options.same_address = (int)draw(2);
    if (allowed(tnr_attach(at, names[draw(NAMES)], 0, &options),
                BIT(INVALID_ARGUMENT) | BIT(INVALID_EXPORT) | BIT(TRANSPORT) | BIT(ADDRESS_SPACE),
                "tnr_attach") != TNR_OK)
        at->ptr = NULL;
    else
        import_check(at, "at once");
}

static void imports_close(void)
{
    for (unsigned i = 0; i < IMPORTS; i++)
        if (self.imports[i].ptr != NULL)
            import_toggle(&self.imports[i]);
}

/* ---- operations ----------------------------------------------------------------------------- */

static void begin(void)
{
    tnr_pool_options shared = TNR_POOL_OPTIONS_INIT, own = TNR_POOL_OPTIONS_INIT;
    if (self.context != NULL)
        return;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&self.context, 0) != CUDA_SUCCESS ||
        cuCtxPushCurrent(self.context) != CUDA_SUCCESS ||
        cuStreamCreate(&self.streams[1], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&self.streams[2], CU_STREAM_DEFAULT) != CUDA_SUCCESS)
        broken("no device");
    shared.is_shared = 1;
    (void)allowed(tnr_pool_create(&self.shared, 0, &shared), 0, "tnr_pool_create");
    (void)allowed(tnr_pool_create(&self.own, 0, &own), 0, "tnr_pool_create");
}

static void wake(void)
{
    self.is_asleep = allowed(tnr_device_wake(0), SHORT, "tnr_device_wake") != TNR_OK;
}

static void memory_rare(int is_alone)
{
    switch (draw(is_alone ? 3 : 6)) {
    case 0:
        (void)allowed(tnr_trim(NULL, draw(16) * MIB, 0), 0, "tnr_trim");
        break;
    case 1:
        if (allowed(tnr_device_sleep(0, NULL), BIT(BUSY), "tnr_device_sleep") == TNR_OK)
            wake();
        break;
    case 2:
        (void)allowed(tnr_validate(-1), 0, "tnr_validate");
        break;
    case 3:
        (void)allowed(tnr_hold(NULL, names[draw(NAMES)], NULL),
                      BIT(INVALID_EXPORT) | BIT(BUSY) | BIT(TRANSPORT) | BIT(INVALID_ARGUMENT),
                      "tnr_hold");
        break;
    case 4:
        (void)allowed(tnr_unpublish(names[draw(NAMES)]), BIT(INVALID_EXPORT), "tnr_unpublish");
        break;
    default:
        publish();
    }
}

static void operate(int is_alone)
{
    block *at = &self.blocks[draw(BLOCKS)];
    uint64_t what = draw(1000);
    uint64_t imports_end = self.is_refused ? 100 : 8; /* few make calls that are refused */
    self.operation++;
    if (self.is_asleep && draw(100) == 0) /* it copies what there is to copy, each time */
        wake();
    if (self.is_asleep)
        return;
    if (what < 4)
        memory_rare(is_alone);
    else if (what < imports_end && !is_alone)
        import_toggle(&self.imports[draw(IMPORTS)]);
    else if (what < 14)
        all_wait();
    else if (what < 16)
        for (unsigned i = 0; i < BLOCKS; i++)
            self.blocks[i].ptr != NULL ? block_free(&self.blocks[i]) : (void)0;
    else if (at->ptr == NULL)
        block_malloc(at);
    else if (what < 150)
        block_work(at);
    else
        block_free(at);
}

/* What sleeps and finds no room, since others may have live what it had, is freed where it is: then
 * it wakes without memory. */
static void end(int is_last)
{
    if (self.is_asleep)
        wake();
    if (self.is_asleep && !is_last)
        return; /* the other is to give everything up first */
    if (!self.is_asleep)
        all_wait();
    for (unsigned i = 0; i < BLOCKS; i++)
        if (self.blocks[i].ptr != NULL) {
            self.blocks[i].is_worked_on |= (uint8_t)self.is_asleep; /* its bytes are not there */
            block_free(&self.blocks[i]);
        }
    if (self.is_asleep)
        wake();
    imports_close();
    for (unsigned i = 0; i < NAMES; i++)
        (void)allowed(tnr_unpublish(names[i]), BIT(INVALID_EXPORT), "tnr_unpublish");
    (void)allowed(tnr_validate(-1), 0, "tnr_validate");
}

/* What the test itself has of the driver. */
static void leave(void)
{
    must(cuCtxSynchronize());
    for (unsigned i = 1; i < STREAMS; i++) {
        (void)allowed(tnr_stream_destroying(0, self.streams[i]), 0, "tnr_stream_destroying");
        must(cuStreamDestroy(self.streams[i]));
    }
    must(cuCtxPopCurrent(&self.context));
    must(cuDevicePrimaryCtxRelease(0));
    self.context = NULL;
}

/* For a run that fails: what others have of this process, and it of them. */
static void tell(void)
{
    tnr_publication_info held = {.struct_bytes = sizeof(held)};
    tnr_import_info open = {.struct_bytes = sizeof(open)};
    for (size_t i = 0; tnr_publication_at(&held, i) == TNR_OK; i++)
        fprintf(
            stderr,
            "process %d holds \"%s\", generation %llu, %zu bytes, %s%s; %u readers, one is %d\n",
            (int)getpid(), held.name, (unsigned long long)held.generation, held.bytes,
            held.is_latest ? "the latest" : "older", held.is_taken_over ? ", taken over" : "",
            held.readers, held.processes[0]);
    for (size_t i = 0; tnr_import_at(&open, i) == TNR_OK; i++)
        fprintf(stderr, "process %d has \"%s\", generation %llu, %zu bytes, of process %d\n",
                (int)getpid(), open.published, (unsigned long long)open.generation, open.bytes,
                open.process);
}

tnr_status random_operate(uint64_t what, uint64_t count, uint64_t seed)
{
    begin();
    self.random = seed;
    self.is_refused = what == RANDOM_REFUSED;
    self.is_full = what == RANDOM_FULL;
    if (what == RANDOM_CLOSE)
        imports_close();
    else if (what == RANDOM_END)
        end(count > 0);
    else if (what == RANDOM_LEAVE)
        leave();
    else if (what == RANDOM_TELL)
        tell();
    else
        for (uint64_t i = 0; i < count; i++)
            operate(what == RANDOM_ALONE);
    return self.is_asleep ? TNR_ERR_ASLEEP : TNR_OK;
}
