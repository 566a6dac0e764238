/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker has written: see findings.h. */
#include "findings.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug_info.h"
#include "json_read.h"

/* A line has at most all sides of one finding; and how deep what is written may be. */
enum { LINE_BYTES_MAX = 1 << 24, DEPTH_MAX = 16 };

static const char *const sides[] = {"allocated", "freed_before", "earlier", "later"};
enum { SIDES_COUNT = sizeof(sides) / sizeof(sides[0]) };

/* ---- reading -------------------------------------------------------------------------------- */

static int line_read(findings *to, const char *path, const char *line, size_t bytes,
                     char error[FINDINGS_ERROR_BYTES])
{
    value item = value_constant(VALUE_NONE);
    input *in = calloc(1, sizeof(*in));
    if (!in) {
        to->limits->refused = 2;
        return -1;
    }
    input_open_memory(in, path, line, bytes);
    int code = json_read(in, &to->heap, NULL, &item);
    if (code == 0 && value_kind_of(item) != VALUE_DICT)
        code = input_fail(in, 0, "a finding is an object, not %s", value_kind_name(item));
    if (code != 0)
        snprintf(error, FINDINGS_ERROR_BYTES, "%s", in->error);
    else if (array_reserve(&to->lines, to->limits, sizeof(value), to->lines.count + 1) != 0)
        code = -1;
    else
        ((value *)to->lines.items)[to->lines.count++] = item;
    input_close(in);
    free(in);
    return code;
}

/* Only the last line may be cut off. */
static int lines_read(findings *to, const char *path, FILE *file, char error[FINDINGS_ERROR_BYTES])
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int code = 0, number = 0;
    while (code == 0 && (length = getline(&line, &room, file)) > 0) {
        char why[FINDINGS_ERROR_BYTES] = "";
        number++;
        if (length > LINE_BYTES_MAX)
            snprintf(why, sizeof(why), "the line is longer than 16 MiB");
        if (length > LINE_BYTES_MAX || line_read(to, path, line, (size_t)length, why) != 0) {
            to->is_cut_off = line[length - 1] != '\n' && !to->limits->refused;
            code = to->is_cut_off ? 0 : -1;
            snprintf(error, FINDINGS_ERROR_BYTES, "%.300s, line %d: %.1000s", path, number, why);
        }
    }
    if (ferror(file)) {
        snprintf(error, FINDINGS_ERROR_BYTES, "%.300s: cannot be read", path);
        code = -1;
    }
    free(line);
    return code;
}

int findings_read(findings *to, const char *path, budget *limits, char error[FINDINGS_ERROR_BYTES])
{
    *to = (findings){.limits = limits};
    error[0] = '\0';
    if (value_heap_start(&to->heap, limits) != 0)
        return -1;
    struct stat info;
    int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe: not waited for */
    int is_file = opened >= 0 && fstat(opened, &info) == 0 && S_ISREG(info.st_mode);
    FILE *file = is_file ? fdopen(opened, "r") : NULL;
    if (!file) {
        if (opened >= 0)
            close(opened);
        snprintf(error, FINDINGS_ERROR_BYTES, "%.300s: is not a file that can be opened", path);
        return -1;
    }
    int code = lines_read(to, path, file, error);
    fclose(file);
    return code;
}

void findings_release(findings *from)
{
    value_heap_release(&from->heap);
    array_release(&from->lines, from->limits, sizeof(value));
}

/* ---- frames --------------------------------------------------------------------------------- */

void findings_frames(const findings *in, const char *but, uint32_t depth,
                     void (*visit)(void *user, value frame), void *user)
{
    for (size_t i = 0; i < in->lines.count; i++) {
        value line = ((value *)in->lines.items)[i], is_out;
        if (but && value_get(&in->heap, line, but, &is_out) && value_kind_of(is_out) == VALUE_TRUE)
            continue;
        for (size_t k = 0; k < SIDES_COUNT; k++) {
            value side, stack;
            if (!value_get(&in->heap, line, sides[k], &side) || value_kind_of(side) != VALUE_DICT ||
                !value_get(&in->heap, side, "stack", &stack) || value_kind_of(stack) != VALUE_LIST)
                continue;
            const value_list *list = value_as_list(stack);
            for (uint32_t n = 0; n < list->count && n < depth; n++)
                if (value_kind_of(list->items[n]) == VALUE_DICT)
                    visit(user, list->items[n]);
        }
    }
}

/* A frame that may be looked up. */
typedef struct wanted {
    const char *path, *build_id;
    uint64_t offset;
    value frame;
} wanted;

typedef struct looker {
    findings *in;
    array list; /* wanted */
    int code;
} looker;

static const char *text_get(const findings *in, value dict, const char *key)
{
    value text;
    return value_get(&in->heap, dict, key, &text) && value_kind_of(text) == VALUE_TEXT
               ? value_as_text(text)->bytes
               : "";
}

static void frame_want(void *user, value frame)
{
    looker *by = user;
    value offset, file;
    wanted one = {text_get(by->in, frame, "path"), text_get(by->in, frame, "build_id"), 0, frame};
    if (one.path[0] == '\0' || one.build_id[0] == '\0' ||
        !value_get(&by->in->heap, frame, "offset", &offset) ||
        !value_as_unsigned(offset, &one.offset) || one.offset == 0 ||
        value_get(&by->in->heap, frame, "file", &file))
        return;
    if (array_reserve(&by->list, by->in->limits, sizeof(one), by->list.count + 1) != 0) {
        by->code = -1;
        return;
    }
    ((wanted *)by->list.items)[by->list.count++] = one;
}

static int wanted_compare(const void *left, const void *right)
{
    const wanted *a = left, *b = right;
    int paths = strcmp(a->path, b->path);
    return paths != 0 ? paths : strcmp(a->build_id, b->build_id);
}

static int text_put(findings *in, value dict, const char *key, const char *text)
{
    value name, item;
    if (!text || !*text)
        return 0;
    return value_make_text(&in->heap, key, strlen(key), &name) != 0 ||
                   value_make_text(&in->heap, text, strlen(text), &item) != 0 ||
                   value_put(&in->heap, dict, name, item) != 0
               ? -1
               : 0;
}

/* The innermost function that the place is in, of those that were inlined. */
static int frame_fill(findings *in, const wanted *one, debug_info *from)
{
    debug_place places[DEBUG_PLACES_MAX];
    value name, line;
    if (debug_info_find(from, one->offset - 1, places) == 0)
        return 0;
    if (text_put(in, one->frame, "function", places[0].function) != 0 ||
        text_put(in, one->frame, "file", places[0].file) != 0 ||
        value_make_text(&in->heap, "line", 4, &name) != 0 ||
        value_make_unsigned(&in->heap, places[0].line, &line) != 0)
        return -1;
    return value_put(&in->heap, one->frame, name, line);
}

int findings_look_up(findings *in)
{
    looker by = {.in = in};
    char why[DEBUG_WHY_BYTES];
    size_t next;
    findings_frames(in, NULL, UINT32_MAX, frame_want, &by);
    wanted *list = by.list.items;
    if (by.list.count > 0)
        qsort(list, by.list.count, sizeof(*list), wanted_compare);
    for (size_t first = 0; first < by.list.count && by.code == 0; first = next) {
        debug_info *from = debug_info_open(list[first].path, list[first].build_id, in->limits, why);
        for (next = first; next < by.list.count && wanted_compare(&list[first], &list[next]) == 0;
             next++)
            if (from && by.code == 0)
                by.code = frame_fill(in, &list[next], from);
        if (from)
            debug_info_close(from);
    }
    array_release(&by.list, in->limits, sizeof(wanted));
    return by.code == 0 ? 0 : -1;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* JSON has no other way to write a number that is none. */
static void real_write(double number, output *out)
{
    char text[32];
    snprintf(text, sizeof(text), "%.17g", number);
    output_text(out, isfinite(number) ? text : "null");
}

static void value_write(value any, output *out, int depth)
{
    uint64_t whole;
    int64_t negative;
    value_kind kind = depth < DEPTH_MAX ? value_kind_of(any) : VALUE_NONE;
    if (kind == VALUE_TRUE || kind == VALUE_FALSE) {
        output_text(out, kind == VALUE_TRUE ? "true" : "false");
    } else if (kind == VALUE_INT && value_as_unsigned(any, &whole)) {
        output_unsigned(out, whole);
    } else if (kind == VALUE_INT && value_as_signed(any, &negative)) {
        output_signed(out, negative);
    } else if (kind == VALUE_REAL) {
        real_write(value_as_real(any), out);
    } else if (kind == VALUE_TEXT) {
        output_json_text(out, value_as_text(any)->bytes);
    } else if (kind == VALUE_LIST) {
        const value_list *list = value_as_list(any);
        for (uint32_t i = 0; i < list->count; i++) {
            output_text(out, i == 0 ? "[" : ", ");
            value_write(list->items[i], out, depth + 1);
        }
        output_text(out, list->count == 0 ? "[]" : "]");
    } else if (kind == VALUE_DICT) {
        const value_dict *dict = value_as_dict(any);
        const value_shape *shape = dict->shape;
        output_text(out, "{");
        for (uint32_t i = shape->count; i > 0; i--, shape = shape->parent) {
            output_json_text(out, shape->key->bytes);
            output_text(out, ": ");
            value_write(dict->items[i - 1], out, depth + 1);
            output_text(out, i > 1 ? ", " : "");
        }
        output_text(out, "}");
    } else {
        output_text(out, "null");
    }
}

void findings_write(const findings *from, output *out)
{
    output_text(out, "[");
    for (size_t i = 0; i < from->lines.count; i++) {
        output_text(out, i > 0 ? ",\n" : "");
        value_write(((value *)from->lines.items)[i], out, 0);
    }
    output_text(out, "]");
}
