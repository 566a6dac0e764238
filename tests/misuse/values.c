/* SPDX-License-Identifier: Apache-2.0 */
/* The values that each kind of argument is given. The first of each kind is a good one, where the
 * state has one; the others are what callers have been seen to pass, and what they could. */
#include "misuse.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { STRUCT_ROOM = 64 << 10, LONG_TEXT = 100 << 10, TAGS_ROOM = 80 };

/* What structs and outputs are written to; one for each argument. */
static char scratch[MISUSE_ARGUMENTS_MAX][STRUCT_ROOM] __attribute__((aligned(64)));
static char host[STRUCT_ROOM];
static char long_text[LONG_TEXT + 1];
static char path_text[300];

#define PICK(texts) (index < sizeof(texts) / sizeof((texts)[0]) ? (texts)[index] : NULL)

typedef struct named_value {
    const char *what;
    misuse_value value;
} named_value;

#define GIVE(values)                                                                               \
    do {                                                                                           \
        if (index >= sizeof(values) / sizeof((values)[0]))                                         \
            return NULL;                                                                           \
        *value = (values)[index].value;                                                            \
        return (values)[index].what;                                                               \
    } while (0)

#define P(what, pointer)                                                                           \
    {                                                                                              \
        what,                                                                                      \
        {                                                                                          \
            .p = (void *)(uintptr_t)(pointer)                                                      \
        }                                                                                          \
    }
#define S(what, number)                                                                            \
    {                                                                                              \
        what,                                                                                      \
        {                                                                                          \
            .size = (size_t)(number)                                                               \
        }                                                                                          \
    }
#define U(what, number)                                                                            \
    {                                                                                              \
        what,                                                                                      \
        {                                                                                          \
            .u = (uint64_t)(number)                                                                \
        }                                                                                          \
    }
#define I(what, number)                                                                            \
    {                                                                                              \
        what,                                                                                      \
        {                                                                                          \
            .i = (int)(number)                                                                     \
        }                                                                                          \
    }

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *text_get(misuse_value *value, const misuse_world *world, misuse_kind kind,
                            size_t index)
{
    memset(long_text, 'a', LONG_TEXT);
    const char *good = "misuse";
    if (kind == KIND_SETTINGS)
        good = "bin_blocks:16";
    if (kind == KIND_PATH) {
        snprintf(path_text, sizeof(path_text), "%s/misuse.json", world->folder);
        good = path_text;
    }
    const named_value values[] = {
        P("good", good),
        P("null", NULL),
        P("empty", ""),
        P("100 KiB long", long_text),
        P("control characters", "\033[31m\001\n"),
        P("a format", "%s%n%d"),
        P("no UTF-8", "\377\376\200"),
        P("a way up", "../../misuse"),
        P("a folder", "/"),
        P("below a file", "/dev/null/misuse"),
        P("a comma", "one,two"),
        P("unknown", "nobody_knows_it"),
        P("a key without value", "bin_blocks"),
        P("a value that is none", "bin_blocks:-1"),
        P("two, the second wrong", "bin_blocks:8,nonsense:1"),
    };
    GIVE(values);
}

static const char *tags_get(misuse_value *value, size_t index)
{
    static const char *good[TAGS_ROOM], *unknown[TAGS_ROOM], *none[TAGS_ROOM], *bad[TAGS_ROOM];
    for (size_t i = 0; i < TAGS_ROOM; i++) {
        good[i] = "misuse";
        unknown[i] = i == 0 ? "misuse" : "nobody_knows_it";
        bad[i] = "\033[31m,\"";
    }
    const named_value values[] = {P("good", good), P("null", NULL),
                                  P("the second unknown", unknown), P("null tags", none),
                                  P("control characters", bad)};
    GIVE(values);
}

/* ---- structs -------------------------------------------------------------------------------- */

static const char *struct_get(misuse_value *value, size_t bytes, int is_options, size_t argument,
                              size_t index)
{
    static const char *const what[] = {"good",         "null",           "size 0",
                                       "size 1",       "one byte less",  "eight bytes more",
                                       "size too big", "full of garbage"};
    const char *name = PICK(what);
    if (name == NULL)
        return NULL;
    const size_t sizes[] = {bytes, 0, 0, 1, bytes - 1, bytes + 8, SIZE_MAX, bytes};
    memset(scratch[argument], 0, STRUCT_ROOM);
    if (index == 7 && is_options) /* but for pointers, which nobody can check */
        for (size_t i = 0; i < bytes; i += 4)
            memset(scratch[argument] + i, i % 8 == 0 ? 0x7f : 0, 4);
    memcpy(scratch[argument], &sizes[index], sizeof(sizes[index]));
    value->p = index == 1 ? NULL : scratch[argument];
    return name;
}

/* Options are made of fields of different kinds: pointers in them are either good or null. */
static const char *options_get(misuse_value *value, const misuse_world *world, size_t bytes,
                               size_t argument, size_t index)
{
    static const char *const more[] = {
        "a hostile name",     "enumerators that are none", "a wrong pool",
        "everything at once", "a property that is rare",   "a size that is too large"};
    if (index < 7)
        return struct_get(value, bytes, 1, argument, index);
    index -= 7;
    const char *name = PICK(more);
    if (name == NULL)
        return NULL;
    char *at = scratch[argument];
    memset(at, 0, STRUCT_ROOM);
    memcpy(at, &bytes, sizeof(bytes));
    memset(long_text, 'a', LONG_TEXT);
    if (bytes == sizeof(tnr_pool_options)) {
        tnr_pool_options *options = (tnr_pool_options *)(void *)at;
        options->name = index == 0 || index == 3 ? long_text : NULL;
        options->handle_type = index == 1 || index == 3 ? (tnr_handle_type)77 : 0;
        options->segment_bytes = index == 3 || index == 5 ? SIZE_MAX : 0;
        options->gpu_direct_rdma = index == 4;
        options->is_shared = index == 3 || index == 4;
    } else if (bytes == sizeof(tnr_capture_options)) {
        tnr_capture_options *options = (tnr_capture_options *)(void *)at;
        options->name = index == 0 || index == 3 ? long_text : NULL;
        options->mode = index == 1 ? (tnr_capture_mode)77 : TNR_CAPTURE_RELAXED;
        options->pool = index == 2 ? world->away : index == 3 ? world->own : NULL;
    } else {
        memset(at + sizeof(size_t), index == 4 ? 1 : 0x7f, bytes - sizeof(size_t));
    }
    value->p = at;
    return name;
}

static const char *output_get(misuse_value *value, size_t argument, size_t index)
{
    memset(scratch[argument], 0, STRUCT_ROOM);
    const named_value values[] = {P("good", scratch[argument]), P("null", NULL)};
    GIVE(values);
}

static const char *name_get(misuse_value *value, const misuse_world *world, size_t index)
{
    static tnr_export_name zeros, ones;
    memset(&ones, 0xff, sizeof(ones));
    const named_value values[] = {P("own", &world->name), P("null", NULL), P("zeros", &zeros),
                                  P("garbage", &ones), P("memory of the host", host)};
    GIVE(values);
}

/* ---- handles and addresses ------------------------------------------------------------------ */

static const char *pointer_get(misuse_value *value, const misuse_world *world, size_t index)
{
    const named_value values[] = {
        P("a live block", world->block),
        P("null", NULL),
        P("1", 1),
        P("inside a block", world->block == NULL ? 3 : (uintptr_t)world->block + 512),
        P("an odd address inside", world->block == NULL ? 5 : (uintptr_t)world->block + 777),
        P("past a block's end", world->block == NULL ? 7 : (uintptr_t)world->block + 16 * MIB),
        P("a freed block", world->freed),
        P("a block of a pool", world->pooled),
        P("a block of another device", world->far),
        P("a growable block", world->growable),
        P("a block with holes", world->ranged),
        P("a parked block", world->parked),
        P("a block that is registered", world->registered),
        P("a block that another stream uses", world->shared),
        P("a block in a foreign segment", world->outsider),
        P("a block of host memory", world->hosted),
        P("inside one", world->hosted == NULL ? 15 : (uintptr_t)world->hosted + 512),
        P("a freed one", world->hosted_freed),
        P("an import", world->imported),
        P("inside an import", world->imported == NULL ? 9 : (uintptr_t)world->imported + 512),
        P("the stack", &index),
        P("memory of the host", host),
        P("code", misuse_value_get),
        P("a text", "text"),
        P("far away in the range",
          world->block == NULL ? 11 : (uintptr_t)world->block + (1l << 33)),
        P("below the block", world->block == NULL ? 13 : (uintptr_t)world->block - 512 * MIB),
        P("mapped by nobody", UINT64_C(0x7f0000000000)),
        P("the kernel's", UINT64_C(0xffff800000000000)),
        P("not canonical", UINT64_C(0x4141414141414141)),
        P("the last address", UINTPTR_MAX),
        P("the last page", UINTPTR_MAX - 4095),
        P("a pool", world->own),
        P("a stream", world->stream),
    };
    GIVE(values);
}

static const char *stream_get(misuse_value *value, const misuse_world *world, size_t index)
{
    const named_value values[] = {
        P("good", world->stream),
        P("another", world->other),
        P("legacy", NULL),
        P("legacy by number", 1),
        P("per thread", 2),
        P("of another device", world->elsewhere),
        P("destroyed", world->ended),
        P("all ones", UINTPTR_MAX),
    };
    GIVE(values);
}

static const char *pool_get(misuse_value *value, const misuse_world *world, size_t index)
{
    const named_value values[] = {
        P("good", world->own),
        P("the default", NULL),
        P("of graphs", world->graphs),
        P("vouched", world->vouched),
        P("over foreign segments", world->foreign),
        P("of another device", world->away),
        P("of host memory", world->hosts),
        P("destroyed", world->destroyed),
        P("1", 1),
        P("a block", world->block),
        P("memory of the host", host),
        P("a stream", world->stream),
        P("all ones", UINTPTR_MAX),
    };
    GIVE(values);
}

static const char *number_get(misuse_value *value, uint64_t good, uint64_t ended, uint64_t other,
                              size_t index)
{
    const named_value values[] = {U("good", good),         U("none", 0),
                                  U("ended", ended),       U("of another kind", other),
                                  U("a million", 1000000), U("all ones", UINT64_MAX)};
    GIVE(values);
}

static const char *cuda_get(misuse_value *value, const misuse_world *world, misuse_kind kind,
                            size_t index)
{
    const named_value graphs[] = {P("good", world->cuda_graph), P("null", NULL),
                                  P("destroyed", world->cuda_graph_ended),
                                  P("an executable", world->exec), P("the captured one", 1)};
    const named_value execs[] = {P("good", world->exec), P("null", NULL),
                                 P("destroyed", world->exec_ended),
                                 P("a graph", world->cuda_graph)};
    const named_value events[] = {P("good", world->event), P("null", NULL),
                                  P("never announced", world->unannounced),
                                  P("a stream", world->stream)};
    if (kind == KIND_CUDA_GRAPH)
        GIVE(graphs);
    if (kind == KIND_EXEC)
        GIVE(execs);
    GIVE(events);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static const char *size_get(misuse_value *value, misuse_kind kind, size_t index)
{
    const named_value sizes[] = {
        S("good", 3 * MIB),
        S("0", 0),
        S("1", 1),
        S("a TiB", (size_t)1 << 40),
        S("the most", (size_t)1 << 60),
        S("more than the most", ((size_t)1 << 60) + 1),
        S("half of all", (size_t)1 << 63),
        S("all but 511", SIZE_MAX - 511),
        S("all ones", SIZE_MAX),
    };
    const named_value alignments[] = {S("good", 4096),
                                      S("0", 0),
                                      S("3", 3),
                                      S("1", 1),
                                      S("2 GiB", (size_t)2 << 30),
                                      S("half of all", (size_t)1 << 63),
                                      S("all ones", SIZE_MAX)};
    const named_value counts[] = {S("0", 0), S("1", 1), S("a million", 1000000),
                                  S("half of all", (size_t)1 << 63), S("all ones", SIZE_MAX)};
    const named_value tags[] = {S("1", 1), S("0", 0), S("2", 2), S("more than there are", 70)};
    const named_value buffers[] = {S("good", STRUCT_ROOM), S("0", 0), S("1", 1)};
    if (kind == KIND_ALIGNMENT)
        GIVE(alignments);
    if (kind == KIND_COUNT)
        GIVE(counts);
    if (kind == KIND_TAGS_COUNT)
        GIVE(tags);
    if (kind == KIND_BUFFER_BYTES)
        GIVE(buffers);
    GIVE(sizes);
}

static const char *int_get(misuse_value *value, const misuse_world *world, misuse_kind kind,
                           size_t index)
{
    const named_value devices[] = {I("0", 0),
                                   I("1", 1),
                                   I("-1", -1),
                                   I("99", 99),
                                   I("host memory", TNR_HOST(0)),
                                   I("host memory of no device", TNR_HOST(2)),
                                   I("least", INT_MIN),
                                   I("most", INT_MAX)};
    const named_value files[] = {I("a socket", world->sockets[0]), I("-1", -1), I("closed", 987654),
                                 I("no socket", 2), I("least", INT_MIN)};
    const named_value flags[] = {I("0", 0), I("1", 1), I("-1", -1)};
    const named_value enums[] = {I("0", 0),   I("1", 1),   I("2", 2),          I("3", 3),
                                 I("-1", -1), I("77", 77), I("least", INT_MIN)};
    if (kind == KIND_DEVICE)
        GIVE(devices);
    if (kind == KIND_FILE)
        GIVE(files);
    if (kind == KIND_FLAG)
        GIVE(flags);
    GIVE(enums);
}

static const char *moment_get(misuse_value *value, size_t index)
{
    const named_value values[] = {U("now", tnr_moment_now()), U("0", 0), U("all ones", UINT64_MAX)};
    GIVE(values);
}

static const char *callback_get(misuse_value *value, misuse_function call, size_t index)
{
    const named_value values[] = {{"good", {.f = call}}, {"null", {.f = NULL}}};
    GIVE(values);
}

const char *misuse_value_get(misuse_value *value, const misuse_world *world, misuse_kind kind,
                             const misuse_detail *detail, size_t argument, size_t index)
{
    switch (kind) {
    case KIND_TEXT:
    case KIND_SETTINGS:
    case KIND_PATH:
    case KIND_PUBLISHED:
    case KIND_TAG:
        return text_get(value, world, kind, index);
    case KIND_TAGS:
        return tags_get(value, index);
    case KIND_OPTIONS:
        return options_get(value, world, detail->bytes, argument, index);
    case KIND_STRUCT:
        return struct_get(value, detail->bytes, 0, argument, index);
    case KIND_OUTPUT:
        return output_get(value, argument, index);
    case KIND_NAME:
        return name_get(value, world, index);
    case KIND_POINTER:
        return pointer_get(value, world, index);
    case KIND_STREAM:
        return stream_get(value, world, index);
    case KIND_POOL:
        return pool_get(value, world, index);
    case KIND_GRAPH:
        return number_get(value, world->graph, world->graph_ended, world->exported, index);
    case KIND_EXPORT:
        return number_get(value, world->exported, world->closed, world->graph, index);
    case KIND_CUDA_GRAPH:
    case KIND_EXEC:
    case KIND_EVENT:
        return cuda_get(value, world, kind, index);
    case KIND_CALLBACK:
        return callback_get(value, detail->call, index);
    case KIND_DEVICE:
    case KIND_FILE:
    case KIND_FLAG:
    case KIND_ENUM:
        return int_get(value, world, kind, index);
    case KIND_ALIGNMENT:
    case KIND_COUNT:
    case KIND_TAGS_COUNT:
    case KIND_BUFFER_BYTES:
    case KIND_SIZE:
        return size_get(value, kind, index);
    case KIND_MOMENT:
        return moment_get(value, index);
    case KIND_BUFFER:
    case KIND_USER:
        value->p = kind == KIND_BUFFER ? scratch[argument] : NULL;
        return index == 0 ? "good" : NULL;
    }
    return NULL;
}
