/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found: see findings.h.
 *
 * A finding is on stderr and in the file for machines as soon as it is made, so that a program that
 * dies has said it. For `tenure run`, which waits for the program, each certain one is a byte in a
 * file: its exit code comes from that.
 *
 *   TENURE_PRELOAD_CHECK         1: on
 *   TENURE_PRELOAD_CHECK_JSON    file to which a line of JSON is added for each finding
 *   TENURE_PRELOAD_CHECK_COUNT   file to which a byte is added for each certain finding
 *   TENURE_PRELOAD_CHECK_LEAKS   1: what is live at the end is listed
 */
#include "check/findings.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service.h"

enum { FINDINGS_MAX = 1000, FRAMES_SHOWN = 5, LEAKS_SHOWN = 100 };

static const char *const kind_keys[] = {
#define KIND_KEY(name, key, text) key,
    CHECK_KINDS(KIND_KEY)
#undef KIND_KEY
};
static const char *const kind_texts[] = {
#define KIND_TEXT(name, key, text) text,
    CHECK_KINDS(KIND_TEXT)
#undef KIND_TEXT
};

/* A finding as it is kept: the block may be gone when it is said. */
typedef struct found {
    check_finding as; /* its block is null, its touches are the copies below */
    check_touch earlier, later, made, freed;
    CUdeviceptr base;
    size_t bytes;
    int device, is_ordered, has_made, has_freed;
    const char *means; /* why it is not certain although the use is; null: it is */
    uint64_t number, times;
} found;

/* Under the lock. */
static found *list[FINDINGS_MAX];
static _Atomic size_t list_count;
static _Atomic size_t list_said; /* the first so many were said */
static uint64_t times_certain, times_possible, distinct_certain, beyond;
static uint64_t launches, launches_unread;

/* ---- finding -------------------------------------------------------------------------------- */

static int is_same(const found *known, const check_finding *finding, int is_certain)
{
    const check_place *earlier = finding->earlier == NULL ? NULL : finding->earlier->place;
    return known->as.kind == finding->kind && known->as.is_certain == is_certain &&
           known->later.place == finding->later->place && known->earlier.place == earlier;
}

static void found_fill(found *fresh, const check_finding *finding)
{
    const check_block *block = finding->block;
    const service_device *device = service_of_address(block->base);
    fresh->as = *finding;
    fresh->later = *finding->later;
    if (finding->earlier != NULL)
        fresh->earlier = *finding->earlier;
    fresh->base = block->base;
    fresh->bytes = block->bytes;
    fresh->is_ordered = block->is_ordered;
    fresh->device = device == NULL ? -1 : device->index;
    fresh->made = block->made;
    fresh->has_made = finding->earlier != &block->made;
    const check_block *before = block->before;
    fresh->has_freed = finding->kind == CHECK_REUSE_WITHOUT_ORDER && before != NULL;
    if (fresh->has_freed)
        fresh->freed = before->freed;
    fresh->as.block = NULL;
    fresh->as.earlier = finding->earlier == NULL ? NULL : &fresh->earlier;
    fresh->as.later = &fresh->later;
}

/* A byte for each certain one that is new. */
static void found_tell(void)
{
    const char *path = getenv("TENURE_PRELOAD_CHECK_COUNT");
    int file = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t written = write(file, "!", 1);
    (void)written;
    (void)close(file);
}

/* Frees of what is no block are wrong whatever is ordered. */
static int depends_on_order(check_kind kind)
{
    return kind != CHECK_DOUBLE_FREE && kind != CHECK_WRONG_FREE;
}

void check_found(const check_finding *finding)
{
    int is_unseen = check_unseen_means != NULL && depends_on_order(finding->kind);
    int is_certain = finding->is_certain && !is_unseen;
    *(is_certain ? &times_certain : &times_possible) += 1;
    for (size_t i = 0; i < list_count; i++) {
        if (!is_same(list[i], finding, is_certain))
            continue;
        list[i]->times++;
        return;
    }
    found *fresh = list_count < FINDINGS_MAX ? calloc(1, sizeof(*fresh)) : NULL;
    distinct_certain += is_certain;
    if (is_certain)
        found_tell();
    if (fresh == NULL) {
        beyond++;
        return;
    }
    found_fill(fresh, finding);
    fresh->as.is_certain = is_certain;
    fresh->means = finding->is_certain && is_unseen ? check_unseen_means : NULL;
    fresh->times = 1;
    fresh->number = list_count + 1;
    list[list_count] = fresh;
    atomic_fetch_add(&list_count, 1);
}

void check_count_launch(int is_read)
{
    launches++;
    launches_unread += !is_read;
}

/* ---- text ----------------------------------------------------------------------------------- */

typedef struct text {
    char *string;
    size_t length, room;
} text;

__attribute__((format(printf, 2, 3))) static void text_add(text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(to->string + to->length, to->room - to->length, format, arguments);
    va_end(arguments);
    if (added > 0)
        to->length +=
            (size_t)added < to->room - to->length ? (size_t)added : to->room - to->length - 1;
}

static void text_write(const text *from, int file)
{
    ssize_t written = write(file, from->string, from->length);
    (void)written;
}

/* Where a return address is: the object, and the function if it is exported. */
static void text_add_frame(text *to, const void *frame)
{
    Dl_info info;
    if (dladdr(frame, &info) == 0 || info.dli_fname == NULL) {
        text_add(to, "%p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    text_add(to, "%s+0x%" PRIxPTR, slash == NULL ? info.dli_fname : slash + 1,
             (uintptr_t)frame - (uintptr_t)info.dli_fbase);
    if (info.dli_sname != NULL)
        text_add(to, " (%s)", info.dli_sname);
}

static void text_add_stream(text *to, const check_touch *touch)
{
    if (touch->handle == NULL || touch->handle == CU_STREAM_LEGACY)
        text_add(to, "stream %" PRIu64 " (the default stream)", touch->stream);
    else if (touch->handle == CU_STREAM_PER_THREAD)
        text_add(to, "stream %" PRIu64 " (the thread's default stream)", touch->stream);
    else
        text_add(to, "stream %" PRIu64 " (%p)", touch->stream, touch->handle);
}

static void text_add_touch(text *to, const char *is, const check_touch *touch)
{
    const check_place *place = touch->place;
    text_add(to, "  %s by %s", is, place->call);
    if (place->kernel != NULL)
        text_add(to, " of %s", place->kernel);
    if (touch->number > 0) {
        text_add(to, " on ");
        text_add_stream(to, touch);
        text_add(to, ", work %" PRIu64 " of it", touch->number);
    }
    text_add(to, ", thread %ld\n", (long)touch->thread);
    for (int i = 0; i < place->stack.count && i < FRAMES_SHOWN; i++) {
        text_add(to, "      ");
        text_add_frame(to, place->stack.frames[i]);
        text_add(to, "\n");
    }
}

/* Which call is missing, and where. */
static void text_add_missing(text *to, const found *one)
{
    const check_finding *as = &one->as;
    switch (as->kind) {
    case CHECK_FREE_IN_USE:
        if (as->later->number == 0)
            text_add(to,
                     "cuMemFree of stream-ordered memory waits for nothing: before it, "
                     "cuStreamSynchronize of stream %" PRIu64,
                     as->earlier->stream);
        else
            text_add(to,
                     "before the free, stream %" PRIu64 " must wait for stream %" PRIu64
                     ": cuEventRecord after the use, cuStreamWaitEvent before the free",
                     as->later->stream, as->earlier->stream);
        text_add(to, "; or tnr_record_use(0x%llx, stream %" PRIu64 ") after the use",
                 (unsigned long long)one->base, as->earlier->stream);
        break;
    case CHECK_USE_BEFORE_ALLOC:
    case CHECK_REUSE_WITHOUT_ORDER:
        text_add(to,
                 "stream %" PRIu64 " must wait for stream %" PRIu64
                 ": cuEventRecord after the allocation, cuStreamWaitEvent before this",
                 as->later->stream, as->earlier->stream);
        break;
    case CHECK_USE_AFTER_FREE:
        text_add(to, "none: the free belongs after the last use");
        break;
    default:
        text_add(to, "none: this free is one too many");
        break;
    }
}

static void text_add_finding(text *to, const found *one)
{
    const check_finding *as = &one->as;
    text_add(to, "tenure: check: finding %" PRIu64 ", %s: %s\n", one->number,
             as->is_certain ? "certain" : "possible", kind_texts[as->kind]);
    text_add(to, "  block 0x%llx of %zu bytes, device %d", (unsigned long long)one->base,
             one->bytes, one->device);
    if (as->address != one->base)
        text_add(to, ", at its byte %llu", (unsigned long long)(as->address - one->base));
    text_add(to, "\n");
    if (one->has_made)
        text_add_touch(to, "allocated", &one->made);
    if (one->has_freed)
        text_add_touch(to, "the block before freed", &one->freed);
    if (as->earlier != NULL)
        text_add_touch(to, as->earlier_is, as->earlier);
    text_add_touch(to, as->later_is, as->later);
    text_add(to, "  missing: ");
    text_add_missing(to, one);
    text_add(to, "\n");
    if (one->means != NULL)
        text_add(to, "  not certain: the program also orders work by %s\n", one->means);
    else if (!as->is_certain)
        text_add(to, "  not certain: a word of a larger parameter, which may be no address\n");
}

/* ---- for machines --------------------------------------------------------------------------- */

static void json_add_string(text *to, const char *from)
{
    text_add(to, "\"");
    for (; *from != '\0'; from++) {
        unsigned char one = (unsigned char)*from;
        if (one == '"' || one == '\\')
            text_add(to, "\\%c", one);
        else if (one < 32)
            text_add(to, "\\u%04x", one);
        else
            text_add(to, "%c", one);
    }
    text_add(to, "\"");
}

static void json_add_touch(text *to, const char *key, const check_touch *touch)
{
    const check_place *place = touch->place;
    text_add(to, ", \"%s\": {\"call\": \"%s\", \"kernel\": ", key, place->call);
    if (place->kernel == NULL)
        text_add(to, "null");
    else
        json_add_string(to, place->kernel);
    if (touch->number > 0)
        text_add(to, ", \"stream\": %" PRIu64 ", \"handle\": \"%p\", \"work\": %" PRIu64,
                 touch->stream, touch->handle, touch->number);
    text_add(to, ", \"thread\": %ld, \"stack\": [", (long)touch->thread);
    for (int i = 0; i < place->stack.count; i++) {
        char frame[512];
        text line = {frame, 0, sizeof(frame)};
        text_add_frame(&line, place->stack.frames[i]);
        text_add(to, "%s", i > 0 ? ", " : "");
        json_add_string(to, frame);
    }
    text_add(to, "]}");
}

static void json_add_finding(text *to, const found *one)
{
    const check_finding *as = &one->as;
    text_add(to,
             "{\"finding\": %" PRIu64 ", \"pid\": %ld, \"kind\": \"%s\", \"certain\": %s, "
             "\"block\": \"0x%llx\", \"bytes\": %zu, \"device\": %d, \"address\": \"0x%llx\"",
             one->number, (long)getpid(), kind_keys[as->kind], as->is_certain ? "true" : "false",
             (unsigned long long)one->base, one->bytes, one->device,
             (unsigned long long)as->address);
    json_add_touch(to, "allocated", &one->made);
    if (one->has_freed)
        json_add_touch(to, "freed_before", &one->freed);
    if (as->earlier != NULL)
        json_add_touch(to, "earlier", as->earlier);
    json_add_touch(to, "later", as->later);
    char missing[512];
    text line = {missing, 0, sizeof(missing)};
    text_add_missing(&line, one);
    text_add(to, ", \"missing\": ");
    json_add_string(to, missing);
    text_add(to, "}\n");
}

static void json_write(const text *from)
{
    const char *path = getenv("TENURE_PRELOAD_CHECK_JSON");
    int file = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    text_write(from, file);
    (void)close(file);
}

/* ---- saying --------------------------------------------------------------------------------- */

static void found_say(const found *one)
{
    enum { ROOM = 16384 };
    char *room = malloc(ROOM);
    if (room == NULL)
        return;
    text said = {room, 0, ROOM};
    text_add_finding(&said, one);
    text_write(&said, STDERR_FILENO);
    said.length = 0;
    json_add_finding(&said, one);
    json_write(&said);
    free(room);
}

/* What is in the list does not change any more but for the times, so it is read without the lock:
 * whoever takes a number says it. */
void check_findings_say(void)
{
    size_t next = atomic_load_explicit(&list_said, memory_order_relaxed);
    while (next < atomic_load(&list_count))
        if (atomic_compare_exchange_weak(&list_said, &next, next + 1))
            found_say(list[next++]);
}

void check_cannot_read(void)
{
    static _Atomic int is_said;
    static const char line[] =
        "tenure: check: this driver does not tell the parameters of kernels (CUDA 12.4 does): what "
        "launches use is not seen, but for those that pass them in one buffer\n";
    if (atomic_exchange(&is_said, 1))
        return;
    ssize_t written = write(STDERR_FILENO, line, sizeof(line) - 1);
    (void)written;
}

/* ---- the end -------------------------------------------------------------------------------- */

typedef struct leaks {
    text said;
    uint64_t blocks, bytes;
} leaks;

static void leak_add(const check_block *block, void *user)
{
    leaks *all = user;
    all->bytes += block->bytes;
    if (all->blocks++ >= LEAKS_SHOWN)
        return;
    text_add(&all->said, "tenure: check: live at the end: block 0x%llx of %zu bytes\n",
             (unsigned long long)block->base, block->bytes);
    text_add_touch(&all->said, "allocated", &block->made);
}

static void leaks_say(void)
{
    enum { ROOM = 1 << 18 };
    char *room = malloc(ROOM);
    if (room == NULL)
        return;
    leaks all = {.said = {room, 0, ROOM}};
    check_blocks_each(leak_add, &all);
    text_add(&all.said, "tenure: check: %" PRIu64 " blocks (%" PRIu64 " bytes) live at the end\n",
             all.blocks, all.bytes);
    text_write(&all.said, STDERR_FILENO);
    free(room);
}

static void sums_say(void)
{
    char room[1024], machine[1024];
    text said = {room, 0, sizeof(room)}, json = {machine, 0, sizeof(machine)};
    text_add(&said,
             "tenure: check: process %ld: %" PRIu64 " distinct certain findings (%" PRIu64
             " times), %zu possible (%" PRIu64 " times); %" PRIu64 " launches, %" PRIu64
             " of them not read; %" PRIu64 " allocations followed, %" PRIu64
             " passed on to the driver and not followed",
             (long)getpid(), distinct_certain, times_certain,
             (size_t)(list_count + beyond - distinct_certain), times_possible, launches,
             launches_unread, atomic_load(&service_counts[COUNT_ALLOCS_SERVED]),
             atomic_load(&service_counts[COUNT_ALLOCS_PASSED]));
    if (beyond > 0)
        text_add(&said, "; the last %" PRIu64 " were not said", beyond);
    text_add(&said, "\n");
    for (size_t i = 0; i < list_count && said.length + 80 < said.room; i++)
        if (list[i]->times > 1)
            text_add(&said, "tenure: check: finding %" PRIu64 ": %" PRIu64 " times\n",
                     list[i]->number, list[i]->times);
    text_write(&said, STDERR_FILENO);
    text_add(&json,
             "{\"summary\": true, \"pid\": %ld, \"certain\": %" PRIu64
             ", \"certain_times\": %" PRIu64 ", \"possible_times\": %" PRIu64
             ", \"launches\": %" PRIu64 ", \"launches_unread\": %" PRIu64
             ", \"allocations_followed\": %" PRIu64 ", \"allocations_passed_on\": %" PRIu64 "}\n",
             (long)getpid(), distinct_certain, times_certain, times_possible, launches,
             launches_unread, atomic_load(&service_counts[COUNT_ALLOCS_SERVED]),
             atomic_load(&service_counts[COUNT_ALLOCS_PASSED]));
    json_write(&json);
}

/* A process that used no GPU says nothing. */
__attribute__((destructor)) static void sums_at_end(void)
{
    const char *wanted = getenv("TENURE_PRELOAD_CHECK_LEAKS");
    if (!check_is_on() || service_is_forked() || !driver_find())
        return;
    check_findings_say();
    if (!check_enter())
        return;
    if (wanted != NULL && strcmp(wanted, "1") == 0)
        leaks_say();
    sums_say();
    check_leave();
}
