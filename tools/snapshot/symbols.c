/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking frames up: see symbols.h. The frames are sorted by their modules, each module's file is
 * opened once, and then the stacks are written anew with the frames that inlining hid.
 */
#include "symbols.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "debug_info.h"
#include "named.h"
#include "texts.h"

/* A frame that is to be looked up. */
typedef struct wanted {
    uint32_t module, frame;
} wanted;

/* The frames that follow a frame in every stack: those that it was inlined into. */
typedef struct outer {
    uint32_t first, count;
} outer;

typedef struct looker {
    model *out;
    const symbols_options *options;
    texts strings;
    map64 build_ids;      /* module -> string */
    array wanted;         /* wanted */
    array outers;         /* outer: by frame, of those that the file had */
    size_t found_count;   /* frames of which something is known */
    size_t inlined_count; /* and frames that were added */
    size_t refused_count; /* modules that could not be looked into */
} looker;

/* How many modules are named in notes; of a program on another machine it would be all. */
enum { REFUSED_MAX = 3 };

static int is_wanted(const frame *one)
{
    return one->module != 0 && one->file == 0 && one->offset > 0;
}

size_t symbols_wanted(const model *snapshot)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->frames.count; i++)
        count += (size_t)is_wanted(MODEL_AT(snapshot->frames, frame, i));
    return count;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* The string's number, 0 for a null text. */
static int string_make(looker *by, const char *text, uint32_t *number)
{
    return texts_add(&by->strings, text, text ? strlen(text) : 0, number);
}

static int frame_fill(looker *by, frame *one, const debug_place *place)
{
    uint32_t function = one->function;
    int is_known = place->function && strcmp(place->function, model_string(by->out, function)) == 0;
    if ((!is_known && string_make(by, place->function, &function) != 0) ||
        string_make(by, place->file, &one->file) != 0)
        return -1;
    one->line = place->line;
    if (function != 0)
        one->function = function;
    return 0;
}

/* Looks up one frame. The one that the file had becomes the innermost; the others are added. */
static int frame_look_up(looker *by, debug_info *from, uint32_t index)
{
    debug_place places[DEBUG_PLACES_MAX];
    model *out = by->out;
    frame *one = MODEL_AT(out->frames, frame, index);
    /* An offset is that of the instruction after the call, which may be another function's. */
    size_t count = debug_info_find(from, one->offset - 1, places);
    if (out->limits->refused)
        return -1;
    if (count == 0)
        return 0;
    by->found_count++;
    if (count > 1) {
        /* What the linker knows is the function around all of them. */
        one->function = 0;
        *MODEL_AT(by->outers, outer, index) =
            (outer){(uint32_t)out->frames.count, (uint32_t)count - 1};
        by->inlined_count += count - 1;
    }
    uint32_t module = one->module;
    uint64_t offset = one->offset;
    if (frame_fill(by, one, &places[0]) != 0)
        return -1;
    for (size_t i = 1; i < count; i++) {
        frame *made = MODEL_ADD(out, &out->frames, frame);
        if (!made || frame_fill(by, made, &places[i]) != 0)
            return -1;
        made->module = module;
        made->offset = offset;
    }
    return 0;
}

/* ---- modules -------------------------------------------------------------------------------- */

static void refuse(looker *by, const char *path, const char *why)
{
    if (by->refused_count++ < REFUSED_MAX)
        model_note(by->out, "no names from %.120s: it %.110s", path, why);
}

/* Looks up the frames of one module, which are `count` from `first` on. */
static int module_look_up(looker *by, size_t first, size_t count)
{
    char why[DEBUG_WHY_BYTES];
    model *out = by->out;
    const wanted *list = MODEL_AT(by->wanted, wanted, first);
    const char *path = model_string(out, list->module);
    uint32_t id = map64_get(&by->build_ids, list->module);
    const char *build_id = id == MAP64_ABSENT ? "" : model_string(out, id);
    if (build_id[0] == '\0') {
        refuse(by, path,
               out->modules.count == 0 ? "may be another build: the snapshot has no build ids"
                                       : "has no build id, by which to know it again; link it with "
                                         "-Wl,--build-id");
        return 0;
    }
    debug_info *from = debug_info_open(path, build_id, out->limits, why);
    if (!from) {
        if (why[0] == '\0')
            return -1;
        refuse(by, path, why);
        return 0;
    }
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = frame_look_up(by, from, list[i].frame);
        if (by->options && by->options->on_progress && (first + i) % 256 == 0)
            by->options->on_progress(by->options->context, first + i, by->wanted.count);
    }
    debug_info_close(from);
    return code;
}

static int wanted_compare(const void *left, const void *right)
{
    const wanted *a = left, *b = right;
    if (a->module != b->module)
        return a->module < b->module ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static int modules_look_up(looker *by)
{
    size_t next;
    for (size_t first = 0; first < by->wanted.count; first = next) {
        uint32_t module = MODEL_AT(by->wanted, wanted, first)->module;
        for (next = first + 1; next < by->wanted.count; next++)
            if (MODEL_AT(by->wanted, wanted, next)->module != module)
                break;
        if (module_look_up(by, first, next - first) != 0)
            return -1;
    }
    if (by->refused_count > REFUSED_MAX)
        model_note(by->out, "and no names from %zu more module%s", by->refused_count - REFUSED_MAX,
                   tnri_plural(by->refused_count - REFUSED_MAX));
    return 0;
}

static int looker_start(looker *by)
{
    model *out = by->out;
    size_t frames = out->frames.count;
    map64_start(&by->build_ids, out->limits);
    if (texts_start(&by->strings, out) != 0 ||
        array_reserve(&by->outers, out->limits, sizeof(outer), frames) != 0 ||
        array_reserve(&by->wanted, out->limits, sizeof(wanted), frames) != 0)
        return -1;
    memset(by->outers.items, 0, frames * sizeof(outer));
    by->outers.count = frames;
    for (uint32_t i = 0; i < frames; i++) {
        const frame *one = MODEL_AT(out->frames, frame, i);
        if (is_wanted(one))
            *MODEL_AT(by->wanted, wanted, by->wanted.count++) = (wanted){one->module, i};
    }
    qsort(by->wanted.items, by->wanted.count, sizeof(wanted), wanted_compare);
    for (size_t i = 0; i < out->modules.count; i++) {
        const module_file *one = MODEL_AT(out->modules, module_file, i);
        if (map64_put(&by->build_ids, one->path, one->build_id) != 0)
            return -1;
    }
    return 0;
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Makes room in the stacks for what was inlined. All or nothing. */
static int stacks_widen(looker *by)
{
    model *out = by->out;
    array wide = {NULL, 0, 0};
    uint64_t total = 0;
    for (size_t i = 0; i < out->stack_frames.count; i++)
        total += 1 + MODEL_AT(by->outers, outer, *MODEL_AT(out->stack_frames, uint32_t, i))->count;
    if (total > UINT32_MAX || array_reserve(&wide, out->limits, sizeof(uint32_t), total) != 0) {
        out->limits->refused = out->limits->refused ? out->limits->refused : 1;
        return -1;
    }
    for (size_t i = 0; i < out->stacks.count; i++) {
        stack *one = MODEL_AT(out->stacks, stack, i);
        uint32_t first = (uint32_t)wide.count;
        for (uint32_t k = 0; k < one->count; k++) {
            uint32_t at = *MODEL_AT(out->stack_frames, uint32_t, one->first + k);
            const outer *more = MODEL_AT(by->outers, outer, at);
            ((uint32_t *)wide.items)[wide.count++] = at;
            for (uint32_t m = 0; m < more->count; m++)
                ((uint32_t *)wide.items)[wide.count++] = more->first + m;
        }
        *one = (stack){first, (uint32_t)wide.count - first};
    }
    array_release(&out->stack_frames, out->limits, sizeof(uint32_t));
    out->stack_frames = wide;
    return 0;
}

/* Says which modules do not even tell who allocated: those were stripped. */
static void nameless_note(looker *by)
{
    model *out = by->out;
    uint32_t said[REFUSED_MAX];
    size_t said_count = 0;
    for (size_t i = 0; i < out->stacks.count && by->refused_count == 0; i++) {
        const stack *one = MODEL_AT(out->stacks, stack, i);
        if (one->count == 0)
            continue;
        const frame *inner =
            MODEL_AT(out->frames, frame, *MODEL_AT(out->stack_frames, uint32_t, one->first));
        size_t known = 0;
        while (known < said_count && said[known] != inner->module)
            known++;
        if (!is_wanted(inner) || inner->function != 0 || known < said_count ||
            said_count == REFUSED_MAX)
            continue;
        said[said_count++] = inner->module;
        model_note(out,
                   "no names from %.120s: it was stripped of its symbols, and its debug "
                   "information is not found",
                   model_string(out, inner->module));
    }
}

int symbols_look_up(model *snapshot, const symbols_options *options)
{
    looker by = {.out = snapshot, .options = options};
    int code = 0;
    if (symbols_wanted(snapshot) == 0)
        return 0;
    code = looker_start(&by);
    if (code == 0)
        code = modules_look_up(&by);
    if (code == 0 && by.inlined_count > 0)
        code = stacks_widen(&by);
    if (code == 0 && by.found_count > 0)
        code = stacks_merge(snapshot);
    if (code == 0)
        nameless_note(&by);
    map64_release(&by.build_ids);
    texts_release(&by.strings);
    array_release(&by.wanted, snapshot->limits, sizeof(wanted));
    array_release(&by.outers, snapshot->limits, sizeof(outer));
    return code;
}
