/* SPDX-License-Identifier: Apache-2.0 */
/* By which frames a stack is named: see named.h. Each frame is judged once. */
#include "named.h"

#include <string.h>

#include "see/snapshot/whose.h"
#include "texts.h"

enum { NAME_BYTES = 120 }; /* of a function of C++ */

typedef struct namer {
    model *out;
    texts names;
    array kinds;  /* uint8_t: of each frame that the file had */
    array shorts; /* uint32_t: the frame with a short name in its place, UINT32_MAX: not made yet */
    array frames; /* uint32_t: of all stacks, what was chosen */
} namer;

/* ---- frames --------------------------------------------------------------------------------- */

static const char *path_end(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int namer_start(namer *by, model *out)
{
    size_t count = out->frames.count;
    by->out = out;
    if (texts_start(&by->names, out) != 0 ||
        array_reserve(&by->kinds, out->limits, 1, count) != 0 ||
        array_reserve(&by->shorts, out->limits, sizeof(uint32_t), count) != 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const frame *one = MODEL_AT(out->frames, frame, i);
        *MODEL_AT(by->kinds, uint8_t, i) = (uint8_t)tnri_frame_whose(
            model_string(out, one->function), model_string(out, one->file),
            path_end(model_string(out, one->module)));
        *MODEL_AT(by->shorts, uint32_t, i) = UINT32_MAX;
    }
    return 0;
}

static void namer_release(namer *by)
{
    budget *limits = by->out->limits;
    texts_release(&by->names);
    array_release(&by->kinds, limits, 1);
    array_release(&by->shorts, limits, sizeof(uint32_t));
    array_release(&by->frames, limits, sizeof(uint32_t));
}

/* How much of a name tells nothing: functions for backward are known by their last part. */
static size_t name_skip(const char *at)
{
    static const char *const parts[] = {"torch::autograd::generated::details::",
                                        "torch::autograd::generated::", "(anonymous namespace)::"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strncmp(at, parts[i], strlen(parts[i])) == 0)
            return strlen(parts[i]);
    return 0;
}

/* "at::native::sort<...>" of "void at::native::sort<long>(long*)". Returns its length; 0: the name
 * is short already. */
static size_t name_shorten(const char *function, char *text)
{
    size_t first, end, length = 0, i;
    int depth = 0;
    tnri_function_name(function, &first, &end);
    if (function[end] != '(')
        return 0;
    for (i = first; i < end && length < NAME_BYTES - 8; i++) {
        while (depth == 0 && name_skip(function + i) > 0)
            i += name_skip(function + i);
        int opens = function[i] == '<' && (i < 8 || strncmp(function + i - 8, "operator", 8) != 0);
        if (depth == 0)
            text[length++] = function[i];
        if (opens && depth++ == 0)
            length += (size_t)(stpcpy(text + length, "...") - (text + length));
        else if (function[i] == '>' && depth > 0 && --depth == 0)
            text[length++] = '>';
    }
    if (i < end)
        length += (size_t)(stpcpy(text + length, "...") - (text + length));
    return length;
}

/* The frame that stands for one of the file's. */
static int frame_short(namer *by, uint32_t index, uint32_t *number)
{
    char text[NAME_BYTES + 8];
    uint32_t function, *known = MODEL_AT(by->shorts, uint32_t, index);
    frame one = *MODEL_AT(by->out->frames, frame, index);
    if (*known == UINT32_MAX) {
        size_t length = name_shorten(model_string(by->out, one.function), text);
        *known = index;
        if (length > 0) {
            if (texts_add(&by->names, text, length, &function) != 0)
                return -1;
            frame *made = MODEL_ADD(by->out, &by->out->frames, frame);
            if (!made)
                return -1;
            *made = one;
            made->function = function;
            *known = (uint32_t)by->out->frames.count - 1;
        }
    }
    *number = *known;
    return 0;
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Adds what is chosen of a stack to by->frames. */
static int stack_choose(namer *by, const stack *from, uint32_t most, stack *chosen)
{
    budget *limits = by->out->limits;
    unsigned all = 0;
    *chosen = (stack){(uint32_t)by->frames.count, 0};
    if (from->count == 0) /* there may be no frame at all to point to */
        return 0;
    const uint32_t *frames = MODEL_AT(by->out->stack_frames, uint32_t, from->first);
    for (uint32_t i = 0; i < from->count; i++)
        all |= *MODEL_AT(by->kinds, uint8_t, frames[i]);
    unsigned wanted = tnri_stack_shown(all);
    for (uint32_t i = 0; i < from->count && chosen->count < most; i++) {
        if ((*MODEL_AT(by->kinds, uint8_t, frames[i]) & wanted) == 0)
            continue;
        size_t at = by->frames.count;
        if (array_reserve(&by->frames, limits, sizeof(uint32_t), at + 1) != 0 ||
            frame_short(by, frames[i], MODEL_AT(by->frames, uint32_t, at)) != 0)
            return -1;
        by->frames.count++;
        chosen->count++;
    }
    return 0;
}

int stacks_shorten(model *snapshot, uint32_t most)
{
    namer by = {.out = snapshot};
    int code = namer_start(&by, snapshot);
    for (size_t i = 0; i < snapshot->stacks.count && code == 0; i++) {
        stack *one = MODEL_AT(snapshot->stacks, stack, i), chosen;
        code = stack_choose(&by, one, most, &chosen);
        *one = code == 0 ? chosen : *one;
    }
    if (code == 0) {
        array before = snapshot->stack_frames;
        snapshot->stack_frames = by.frames;
        by.frames = before;
        code = stacks_merge(snapshot);
    }
    namer_release(&by);
    return code;
}

int stacks_show(model *snapshot)
{
    namer by = {.out = snapshot};
    array *frames = &snapshot->stack_frames;
    int code = namer_start(&by, snapshot);
    for (size_t i = 0; i < snapshot->stacks.count && code == 0; i++) {
        stack *made = MODEL_ADD(snapshot, &snapshot->shown, stack);
        code =
            made ? stack_choose(&by, MODEL_AT(snapshot->stacks, stack, i), UINT32_MAX, made) : -1;
        if (made)
            made->first += (uint32_t)frames->count;
    }
    size_t count = frames->count + by.frames.count;
    if (code == 0 && (count > UINT32_MAX ||
                      array_reserve(frames, snapshot->limits, sizeof(uint32_t), count) != 0))
        code = -1;
    if (code == 0 && by.frames.count > 0)
        memcpy(MODEL_AT(*frames, uint32_t, frames->count), by.frames.items,
               by.frames.count * sizeof(uint32_t));
    frames->count = code == 0 ? count : frames->count;
    namer_release(&by);
    return code;
}

/* ---- equal stacks --------------------------------------------------------------------------- */

/* The number of the key, `next` if it is new. */
static int key_number(map64 *map, uint64_t key, uint32_t next, uint32_t *number)
{
    *number = map64_get(map, key);
    if (*number != MAP64_ABSENT)
        return 0;
    *number = next;
    return map64_put(map, key, next);
}

/* maps[0] and [1]: the first frame with these names; frames with an offset and without a line are
 * like no other. */
static int frame_first(map64 *maps, const model *in, uint32_t index, uint32_t *first)
{
    const frame *one = MODEL_AT(in->frames, frame, index);
    uint32_t pair;
    *first = index;
    if (one->line == 0 && one->offset > 0)
        return 0;
    return key_number(&maps[0], (uint64_t)one->function << 32 | one->file, (uint32_t)maps[0].count,
                      &pair) != 0 ||
                   key_number(&maps[1], (uint64_t)pair << 32 | one->line, index, first) != 0
               ? -1
               : 0;
}

/* maps[2] and [3]: the first stack with the same frames. As in the interner, the frames lead
 * through a tree of all stacks. */
static int stack_first(map64 *maps, const model *in, uint32_t index, uint32_t *first)
{
    const stack *one = MODEL_AT(in->stacks, stack, index);
    uint32_t node = 0;
    for (uint32_t i = 0; i < one->count; i++) {
        uint32_t part;
        if (frame_first(maps, in, *MODEL_AT(in->stack_frames, uint32_t, one->first + i), &part) !=
                0 ||
            key_number(&maps[2], (uint64_t)node << 32 | part, (uint32_t)maps[2].count + 1, &node) !=
                0)
            return -1;
    }
    return key_number(&maps[3], node, index, first);
}

/* Stacks that go through other instructions of the same lines are one for whoever reads names: a
 * loop that the compiler wrote out twice is one place in the source. */
int stacks_merge(model *out)
{
    map64 maps[4];
    array firsts = {NULL, 0, 0};
    int code = array_reserve(&firsts, out->limits, sizeof(uint32_t), out->stacks.count);
    for (size_t i = 0; i < 4; i++)
        map64_start(&maps[i], out->limits);
    for (uint32_t i = 0; i < out->stacks.count && code == 0; i++)
        code = stack_first(maps, out, i, &((uint32_t *)firsts.items)[i]);
    for (size_t i = 0; i < out->blocks.count && code == 0; i++) {
        block *one = MODEL_AT(out->blocks, block, i);
        one->stack = *MODEL_AT(firsts, uint32_t, one->stack);
    }
    for (size_t i = 0; i < out->records.count && code == 0; i++) {
        record *one = MODEL_AT(out->records, record, i);
        one->stack = *MODEL_AT(firsts, uint32_t, one->stack);
    }
    for (size_t i = 0; i < 4; i++)
        map64_release(&maps[i]);
    array_release(&firsts, out->limits, sizeof(uint32_t));
    return code;
}
