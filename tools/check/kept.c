/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a finding: see kept.h. */
#include "check/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "check/names.h"

/* A finding has as many lines at most, and a function as many characters. */
enum { LINES_MAX = 20, FUNCTION_MAX = 80 };
enum { FACTS_MAX = CHECK_SIDE_COUNT * (3 + CHECK_FRAMES * 4) + 1 };

const char *const check_kind_keys[] = {
#define KIND_KEY(name, key, text) key,
    CHECK_KINDS(KIND_KEY)
#undef KIND_KEY
};
static const char *const kind_texts[] = {
#define KIND_TEXT(name, key, text) text,
    CHECK_KINDS(KIND_TEXT)
#undef KIND_TEXT
};

/* ---- frames --------------------------------------------------------------------------------- */

/* A stack from the program's own first frame on; all of it if nothing there is the program's. What
 * lies between an interpreter's frames and machine code of the program's is left out, too. */
typedef struct frames {
    check_frame list[CHECK_FRAMES];
    const void *addresses[CHECK_FRAMES];
    int count;
} frames;

static void frames_find(frames *to, const check_stack *stack)
{
    int first = 0, head = 0;
    for (int i = 0; i < stack->count; i++) {
        to->list[i] = check_frame_of(stack->frames[i]);
        to->addresses[i] = stack->frames[i];
    }
    while (head < stack->count && to->list[head].is_interpreted)
        head++;
    first = head;
    while (first < stack->count && to->list[first].is_between)
        first++;
    if (first == stack->count && head == 0)
        first = 0;
    size_t rest = (size_t)(stack->count - first);
    memmove(to->list + head, to->list + first, rest * sizeof(to->list[0]));
    memmove(to->addresses + head, to->addresses + first, rest * sizeof(to->addresses[0]));
    to->count = head + (int)rest;
}

/* Leaves out what tells a reader nothing, unless nothing would be left. Behind an interpreter's
 * frames one of what they have called is enough. */
static void frames_shorten(frames *in)
{
    int kept = 0, called = 0;
    frames all = *in;
    for (int i = 0; i < all.count; i++) {
        const check_frame *frame = &all.list[i];
        called += !frame->is_interpreted && all.list[0].is_interpreted && !frame->is_outside;
        if (frame->is_outside || called > 1)
            continue;
        in->list[kept] = all.list[i];
        in->addresses[kept++] = all.addresses[i];
    }
    if (kept > 0)
        in->count = kept;
}

static void frame_text(check_text *to, const frames *in, int i)
{
    const check_frame *frame = &in->list[i];
    if (frame->path == NULL) {
        check_text_add(to, "%p", in->addresses[i]);
        return;
    }
    if (frame->is_interpreted)
        check_text_add(to, "%s:%d", frame->path, frame->line);
    else
        check_text_add(to, "%s+0x%" PRIx64, frame->name, frame->offset);
    if (frame->function == NULL)
        return;
    int is_long = strlen(frame->function) > FUNCTION_MAX;
    check_text_add(to, " (%.*s%s)", FUNCTION_MAX, frame->function, is_long ? "..." : "");
}

/* A line of a stack; behind it what `tenure run` looks the line of the source up by. */
static void frame_line(check_text *to, const frames *in, int i)
{
    const check_frame *frame = &in->list[i];
    check_text_add(to, "      ");
    frame_text(to, in, i);
    if (to->has_places && !frame->is_interpreted && frame->path != NULL &&
        frame->build_id[0] != '\0')
        check_text_add(to, "\x1f%s\x1f%" PRIu64 "\x1f%s", frame->path, frame->offset,
                       frame->build_id);
    check_text_add(to, "\n");
}

/* ---- for people ----------------------------------------------------------------------------- */

static void stream_text(check_text *to, const check_side *side)
{
    if (side->touch.stream == 0)
        check_text_add(to, "a stream");
    else
        check_text_add(to, "stream %" PRIu64, side->touch.stream);
    if (side->label != NULL)
        check_text_add(to, " \"%s\"", side->label);
}

static void stream_text_whole(check_text *to, const check_side *side)
{
    const void *handle = side->touch.handle;
    stream_text(to, side);
    if (handle == NULL || handle == CU_STREAM_LEGACY)
        check_text_add(to, " (the default stream)");
    else if (handle == CU_STREAM_PER_THREAD)
        check_text_add(to, " (the thread's default stream)");
    else
        check_text_add(to, " (%p)", handle);
}

static void side_text(check_text *to, const check_side *side, const frames *stack, int most)
{
    const check_place *place = side->touch.place;
    check_text_add(to, "  %s by %s", side->is, place->call);
    if (place->kernel != NULL)
        check_text_add(to, " of %s", place->kernel);
    if (side->touch.stream > 0) {
        check_text_add(to, " on ");
        stream_text_whole(to, side);
    }
    if (side->touch.number > 0)
        check_text_add(to, ", work %" PRIu64 " of it", side->touch.number);
    if (side->touch.thread > 0)
        check_text_add(to, ", thread %ld", (long)side->touch.thread);
    check_text_add(to, "\n");
    for (int i = 0; i < stack->count && i < most; i++)
        frame_line(to, stack, i);
}

void check_side_text(check_text *to, const check_side *side)
{
    frames stack;
    frames_find(&stack, &side->touch.place->stack);
    frames_shorten(&stack);
    side_text(to, side, &stack, CHECK_FRAMES);
}

/* 1 if a side of a race is a copy that may go on when its call has returned. */
static int is_after_call(const check_kept *one)
{
    static const char call[] = "cuMemcpyHtoD";
    const check_place *earlier = one->sides[CHECK_SIDE_EARLIER].touch.place;
    return one->kind == CHECK_RACE && earlier != NULL && strcmp(earlier->call, call) == 0;
}

/* Of two operations, each on a stream that may be unknown. */
static void race_text(check_text *to, const check_kept *one)
{
    const check_side *earlier = &one->sides[CHECK_SIDE_EARLIER];
    const check_side *later = &one->sides[CHECK_SIDE_LATER];
    if (earlier->touch.stream == later->touch.stream) {
        check_text_add(to, "an edge between the two nodes: cuGraphAddDependencies");
        return;
    }
    stream_text(to, later);
    check_text_add(to, " must wait for ");
    stream_text(to, earlier);
    check_text_add(to, ": cuEventRecord after the first, cuStreamWaitEvent before the second");
    if (one->sides[CHECK_SIDE_BEFORE].touch.place == NULL)
        return;
    check_text_add(to, "; or, if the first was given the block before, tnr_record_use(0x%llx, ",
                   (unsigned long long)one->base_before);
    stream_text(to, earlier);
    check_text_add(to, ") before that was freed");
}

/* Of an operand that goes on behind the block, or begins before it. */
static void bounds_text(check_text *to, const check_kept *one)
{
    uint64_t before = one->base - one->address, there = one->base + one->bytes - one->address;
    if (one->address < one->base)
        check_text_add(to, "begin at 0x%llx: it begins %" PRIu64 " byte%s before that, in no block",
                       (unsigned long long)one->base, before, tnri_plural(before));
    else
        check_text_add(to, "use no more than the %" PRIu64 " byte%s that %s there; it is %zu",
                       there, tnri_plural(there), there == 1 ? "is" : "are", one->touched);
}

/* Which call is missing, and where; or what else is to be done. */
static void missing_text(check_text *to, const check_kept *one)
{
    const check_side *earlier = &one->sides[CHECK_SIDE_EARLIER];
    const check_side *later = &one->sides[CHECK_SIDE_LATER];
    switch (one->kind) {
    case CHECK_FREE_IN_USE:
        if (strncmp(later->touch.place->call, "tnr_", 4) == 0) {
            check_text_add(to, "tnr_record_use(0x%llx, ", (unsigned long long)one->base);
            stream_text(to, earlier);
            check_text_add(to, ") after the use, in PyTorch tensor.record_stream; or, before the "
                               "free, ");
            stream_text(to, later);
            check_text_add(to, " must wait for ");
            stream_text(to, earlier);
            break;
        }
        if (later->touch.number == 0) {
            check_text_add(to, "cuMemFree of stream-ordered memory waits for nothing: before it, "
                               "cuStreamSynchronize of ");
            stream_text(to, earlier);
        } else {
            check_text_add(to, "before the free, ");
            stream_text(to, later);
            check_text_add(to, " must wait for ");
            stream_text(to, earlier);
            check_text_add(to, ": cuEventRecord after the use, cuStreamWaitEvent before the free");
        }
        check_text_add(to, "; or tnr_record_use(0x%llx, ", (unsigned long long)one->base);
        stream_text(to, earlier);
        check_text_add(to, ") after the use");
        break;
    case CHECK_USE_BEFORE_ALLOC:
    case CHECK_REUSE_WITHOUT_ORDER:
        stream_text(to, later);
        check_text_add(to, " must wait for ");
        stream_text(to, earlier);
        check_text_add(to, ": cuEventRecord after the allocation, cuStreamWaitEvent before this");
        break;
    case CHECK_RACE:
        race_text(to, one);
        break;
    case CHECK_HOST_TOUCH:
        check_text_add(to, "before it, wait for ");
        stream_text(to, earlier);
        check_text_add(to, ": cuStreamSynchronize, or an event after the copy");
        break;
    case CHECK_USE_AFTER_FREE:
        check_text_add(to, "free it after the last use");
        break;
    case CHECK_OUT_OF_BOUNDS:
        bounds_text(to, one);
        break;
    case CHECK_WRONG_FREE:
        check_text_add(
            to, "free 0x%llx, this is %llu byte%s into it", (unsigned long long)one->base,
            (unsigned long long)(one->address - one->base), tnri_plural(one->address - one->base));
        break;
    default:
        check_text_add(to, "leave out the second free");
        break;
    }
}

int check_kept_may_be_none(const check_kept *one)
{
    return !one->is_certain && one->means == NULL;
}

int check_kept_is_doubted(const check_kept *one)
{
    return check_kept_may_be_none(one) || one->means == check_means_polls;
}

/* How many frames of each stack there is room for: what was done wrong comes first. */
static void frames_share(const frames *stacks, int count, int room, int shares[CHECK_SIDE_COUNT])
{
    int kept = 2 * (count > 2 ? count - 2 : 0);
    for (int i = 0; i < count; i++) {
        int others = count - i - 1;
        int most = i == 0 && others > 0 ? (room - kept + 1) / 2
                   : i < 2              ? room - kept
                                        : room / (others + 1);
        if (i == 0 && others > 0 && stacks[1].count < room - kept - most)
            most = room - kept - stacks[1].count;
        shares[i] = stacks[i].count < most ? stacks[i].count : most;
        room -= shares[i];
    }
}

/* What was done wrong, and then whose the memory was. */
static void sides_text(check_text *to, const check_kept *one)
{
    static const check_side_index order[CHECK_SIDE_COUNT] = {CHECK_SIDE_EARLIER, CHECK_SIDE_LATER,
                                                             CHECK_SIDE_BEFORE, CHECK_SIDE_MADE};
    frames stacks[CHECK_SIDE_COUNT];
    const check_side *shown[CHECK_SIDE_COUNT];
    int shares[CHECK_SIDE_COUNT], count = 0;
    for (int i = 0; i < CHECK_SIDE_COUNT; i++) {
        const check_side *side = &one->sides[order[i]];
        int is_double = order[i] == CHECK_SIDE_EARLIER && one->is_made_earlier;
        if (side->touch.place == NULL || is_double)
            continue;
        frames_find(&stacks[count], &side->touch.place->stack);
        frames_shorten(&stacks[count]);
        shown[count++] = side;
    }
    frames_share(stacks, count, LINES_MAX - 3 - !one->is_certain - is_after_call(one) - count,
                 shares);
    for (int i = 0; i < count; i++)
        side_text(to, shown[i], &stacks[i], shares[i]);
}

void check_kept_text(check_text *to, const check_kept *one)
{
    check_text_add(to, "tenure: check: finding %" PRIu64 ", %s: %s\n", one->number,
                   one->is_certain ? "certain" : "possible", kind_texts[one->kind]);
    if (one->kind == CHECK_HOST_TOUCH)
        check_text_add(to, "  pinned memory 0x%llx of %zu byte%s", (unsigned long long)one->base,
                       one->bytes, tnri_plural(one->bytes));
    else if (one->device < 0) /* of the host, or not followed */
        check_text_add(to, "  memory 0x%llx of %zu byte%s", (unsigned long long)one->base,
                       one->bytes, tnri_plural(one->bytes));
    else
        check_text_add(to, "  block 0x%llx of %zu byte%s, device %d", (unsigned long long)one->base,
                       one->bytes, tnri_plural(one->bytes), one->device);
    if (one->address > one->base)
        check_text_add(to, ", at its byte %llu", (unsigned long long)(one->address - one->base));
    check_text_add(to, "\n");
    sides_text(to, one);
    if (is_after_call(one))
        check_text_add(to,
                       "  why: cuMemcpyHtoD returns when pageable memory has been read, and the "
                       "copy to the device may be under way\n");
    check_text_add(to, "  fix: ");
    missing_text(to, one);
    check_text_add(to, "\n");
    if (one->means != NULL)
        check_text_add(to, "  not certain: %s\n", one->means);
    else if (check_kept_may_be_none(one))
        check_text_add(to,
                       "  not certain: a word of a larger parameter, a number, the end of a range, "
                       "or one parameter of very many: it may be no address, or not be read\n");
}

/* ---- for machines --------------------------------------------------------------------------- */

static void frame_json(check_text *to, const frames *in, int i)
{
    char line[2048];
    check_text text = {line, 0, sizeof(line), 0};
    frame_text(&text, in, i);
    check_text_add(to, "{\"frame\": ");
    check_text_add_json(to, line);
    if (in->list[i].is_interpreted) {
        check_text_add(to, ", \"function\": ");
        check_text_add_json(to, in->list[i].function);
        check_text_add(to, ", \"file\": ");
        check_text_add_json(to, in->list[i].path);
        check_text_add(to, ", \"line\": %d", in->list[i].line);
    } else if (in->list[i].path != NULL) {
        check_text_add(to, ", \"path\": ");
        check_text_add_json(to, in->list[i].path);
        check_text_add(to, ", \"offset\": %" PRIu64 ", \"build_id\": \"%s\"", in->list[i].offset,
                       in->list[i].build_id);
    }
    check_text_add(to, "}");
}

void check_side_json(check_text *to, const char *key, const check_side *side)
{
    const check_place *place = side->touch.place;
    frames stack;
    check_text_add(to, ", \"%s\": {\"call\": \"%s\", \"kernel\": ", key, place->call);
    if (place->kernel == NULL)
        check_text_add(to, "null");
    else
        check_text_add_json(to, place->kernel);
    if (side->touch.stream > 0) {
        check_text_add(to, ", \"stream\": %" PRIu64 ", \"handle\": \"%p\", \"name\": ",
                       side->touch.stream, side->touch.handle);
        if (side->label == NULL)
            check_text_add(to, "null");
        else
            check_text_add_json(to, side->label);
    }
    if (side->touch.number > 0)
        check_text_add(to, ", \"work\": %" PRIu64, side->touch.number);
    if (side->touch.thread > 0)
        check_text_add(to, ", \"thread\": %ld", (long)side->touch.thread);
    check_text_add(to, ", \"stack\": [");
    frames_find(&stack, &place->stack);
    for (int i = 0; i < stack.count; i++) {
        check_text_add(to, "%s", i > 0 ? ", " : "");
        frame_json(to, &stack, i);
    }
    check_text_add(to, "]}");
}

void check_kept_json(check_text *to, const check_kept *one)
{
    static const char *const keys[CHECK_SIDE_COUNT] = {"allocated", "freed_before", "earlier",
                                                       "later"};
    check_text_add(to,
                   "{\"finding\": %" PRIu64 ", \"pid\": %ld, \"kind\": \"%s\", \"certain\": %s, "
                   "\"may_be_no_address\": %s, \"block\": \"0x%llx\", \"bytes\": %zu, "
                   "\"device\": %d, \"address\": \"0x%llx\"",
                   one->number, (long)getpid(), check_kind_keys[one->kind],
                   one->is_certain ? "true" : "false",
                   check_kept_may_be_none(one) ? "true" : "false", (unsigned long long)one->base,
                   one->bytes, one->device, (unsigned long long)one->address);
    for (int i = 0; i < CHECK_SIDE_COUNT; i++)
        if (one->sides[i].touch.place != NULL)
            check_side_json(to, keys[i], &one->sides[i]);
    char missing[1024];
    check_text line = {missing, 0, sizeof(missing), 0};
    missing_text(&line, one);
    check_text_add(to, ", \"missing\": ");
    check_text_add_json(to, missing);
    check_text_add(to, ", \"doubt\": ");
    if (one->means == NULL)
        check_text_add(to, "null");
    else
        check_text_add_json(to, one->means);
    check_text_add(to, "}\n");
}

/* ---- rules ---------------------------------------------------------------------------------- */

typedef struct facts {
    suppress_fact list[FACTS_MAX];
    size_t count;
} facts;

static void fact_add(facts *to, suppress_about about, const char *text)
{
    if (text != NULL && to->count < FACTS_MAX)
        to->list[to->count++] = (suppress_fact){about, text};
}

int check_kept_rule(const check_kept *one, const suppress_rules *rules)
{
    facts all = {.count = 0};
    char places[CHECK_SIDE_COUNT][CHECK_FRAMES][128];
    if (rules->count == 0)
        return -1;
    fact_add(&all, SUPPRESS_KIND, check_kind_keys[one->kind]);
    for (int i = 0; i < CHECK_SIDE_COUNT; i++) {
        const check_side *side = &one->sides[i];
        const check_place *place = side->touch.place;
        frames stack = {.count = 0};
        if (place == NULL)
            continue;
        frames_find(&stack, &place->stack);
        fact_add(&all, SUPPRESS_CALL, place->call);
        fact_add(&all, SUPPRESS_KERNEL, place->kernel);
        fact_add(&all, SUPPRESS_STREAM, side->label);
        for (int k = 0; k < stack.count; k++) {
            const check_frame *frame = &stack.list[k];
            if (frame->path == NULL)
                continue;
            if (frame->is_interpreted)
                (void)snprintf(places[i][k], sizeof(places[i][k]), "%s:%d", frame->name,
                               frame->line);
            else
                (void)snprintf(places[i][k], sizeof(places[i][k]), "%s+0x%" PRIx64, frame->name,
                               frame->offset);
            fact_add(&all, SUPPRESS_FRAME, places[i][k]);
            fact_add(&all, SUPPRESS_FRAME, frame->name);
            fact_add(&all, SUPPRESS_FRAME, frame->function);
            fact_add(&all, SUPPRESS_FRAME, frame->mangled);
        }
    }
    return suppress_find(rules, all.list, all.count);
}
