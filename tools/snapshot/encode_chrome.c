/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing trace events: see encode_chrome.h.
 *
 * A device is a process, a stream one thread or several. Viewers draw a slice of a thread inside a
 * longer slice around it. They cannot draw two slices that overlap otherwise. So a stream has as
 * many threads, called lanes here, as it needs. A slice goes into the lane where it fits most
 * tightly, else into a new one. Blocks that are freed in the reverse order of allocation need one
 * lane. Launches have lanes of their own, because one may still run when the next is made.
 *
 * Counters and instants are written during the pass through the history, slices at its end. The
 * output has a bound for each record, whatever is in the file: texts and stacks are cut.
 */
#include "encode_chrome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/utf8.h"
#include "course.h"
#include "holders.h"
#include "launches.h"

enum {
    LANES_MAX = 1000, /* of one stream; also what tells its threads' numbers from others' */
    DEPTH_MAX = 200,  /* of slices in slices: viewers stop at some hundreds */
    FRAMES_MAX = 16,  /* of a stack, the innermost */
    TEXT_BYTES = 200, /* of a name */
    NOTHING = INT32_MAX,
};

typedef struct lane {
    uint32_t top;  /* the innermost slice that goes on, or NOTHING */
    uint32_t next; /* lane of the stream, or NOTHING */
    int is_named;
} lane;

typedef struct writer {
    const model *in;
    output *out;
    course way;
    store place;
    launches graphs;
    course_sums *said;   /* by device: the latest that was written */
    const char **labels; /* by frame: its label, once it was needed */
    int needs_memory;    /* a label did not get any */
    uint64_t events_count;
    uint64_t left_out; /* slices for which there was no lane */
    array lanes;       /* lane */
    uint32_t *firsts;  /* by track: its first lane, or NOTHING */
    uint32_t *outers;  /* by life: the slice around it, or NOTHING */
    uint8_t *depths;   /* by life */
} writer;

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Part of a string, cut at the end of a letter. */
static void part_write(output *out, const char *text)
{
    char cut[TEXT_BYTES + 4];
    size_t length = 0, step;
    while (text[length] != '\0' &&
           (step = tnri_utf8_length(text + length, strnlen(text + length, 4))) > 0 &&
           length + step <= TEXT_BYTES)
        length += step;
    memcpy(cut, text, length);
    memcpy(cut + length, text[length] != '\0' ? "..." : "", text[length] != '\0' ? 4 : 1);
    output_json_part(out, cut);
}

static void text_write(output *out, const char *before, const char *text)
{
    output_text(out, before);
    output_bytes(out, "\"", 1);
    part_write(out, text);
    output_bytes(out, "\"", 1);
}

static void count_write(output *out, const char *before, uint64_t number)
{
    output_text(out, before);
    output_unsigned(out, number);
}

/* Microseconds, of which the format wants a decimal number. */
static void time_write(output *out, const char *before, int64_t ns)
{
    char fraction[8];
    uint64_t time = ns > 0 ? (uint64_t)ns : 0;
    count_write(out, before, time / 1000);
    snprintf(fraction, sizeof(fraction), ".%03u", (unsigned)(time % 1000));
    output_text(out, fraction);
}

/* The beginning of an event up to its time. */
static void event_begin(writer *to, const char *phase, size_t process, uint64_t thread, int64_t ns)
{
    output *out = to->out;
    output_text(out, to->events_count++ > 0 ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    output_text(out, phase);
    count_write(out, "\",\"pid\":", process);
    count_write(out, ",\"tid\":", thread);
    time_write(out, ",\"ts\":", ns);
}

static void name_event(writer *to, const char *what, size_t process, uint64_t thread,
                       const char *name)
{
    event_begin(to, "M", process, thread, 0);
    text_write(to->out, ",\"name\":", what);
    text_write(to->out, ",\"args\":{\"name\":", name);
    output_text(to->out, "}}");
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The process of a device; its instants are on the thread of the same number. Numbers begin at 1:
 * to viewers 0 is the idle thread of a processor. */
static size_t process_of(size_t device_at)
{
    return device_at + 1;
}

/* Made once: a name may be long, and in as many stacks as there are. */
static const char *frame_name(writer *to, uint32_t at)
{
    char label[TEXT_BYTES * 2];
    if (to->labels[at] != NULL)
        return to->labels[at];
    frame_label(to->in, MODEL_AT(to->in->frames, frame, at), label, sizeof(label));
    size_t length = strnlen(label, TEXT_BYTES + 1);
    char *made = store_take(&to->place, length + 1);
    to->needs_memory |= made == NULL;
    if (made == NULL)
        return "";
    memcpy(made, label, length);
    return to->labels[at] = made;
}

/* The key "stack" of arguments. */
static void stack_write(writer *to, uint32_t index)
{
    const model *in = to->in;
    output *out = to->out;
    const stack *one = MODEL_AT(in->stacks, stack, index);
    if (one->count == 0)
        return;
    for (uint32_t i = 0; i < one->count && i < FRAMES_MAX; i++) {
        uint32_t at = *MODEL_AT(in->stack_frames, uint32_t, one->first + i);
        text_write(out, i == 0 ? ",\"stack\":[" : ",", frame_name(to, at));
    }
    output_text(out, one->count > FRAMES_MAX ? ",\"...\"]" : "]");
}

/* What a slice is called: the function that allocated it, else its size. */
static void life_name(writer *to, const life *one)
{
    const model *in = to->in;
    const stack *from = MODEL_AT(in->stacks, stack, one->stack);
    char size[32];
    const char *name = size;
    snprintf(size, sizeof(size), "%" PRIu64 " B", one->requested_bytes);
    if (from->count > 0) {
        uint32_t at = *MODEL_AT(in->stack_frames, uint32_t, from->first);
        const char *function = model_string(in, MODEL_AT(in->frames, frame, at)->function);
        name = *function != '\0' ? function : frame_name(to, at);
    }
    output_text(to->out, ",\"name\":\"");
    part_write(to->out, name);
    output_text(to->out, one->is_waiting ? " (waiting)\"" : "\"");
}

static void processes_write(writer *to)
{
    const model *in = to->in;
    char name[TEXT_BYTES];
    for (size_t i = 0; i <= in->devices.count; i++) {
        if (i < in->devices.count) {
            const device *one = MODEL_AT(in->devices, device, i);
            snprintf(name, sizeof(name), "device %" PRIu64 " %s", one->index, one->name);
        } else {
            snprintf(name, sizeof(name), "program %s", in->program);
        }
        name_event(to, "process_name", process_of(i), process_of(i), name);
        name_event(to, "thread_name", process_of(i), process_of(i), "events");
    }
}

/* ---- counters ------------------------------------------------------------------------------- */

static void counter_write(writer *to, size_t device_at, const char *name, uint64_t bytes)
{
    event_begin(to, "C", process_of(device_at), process_of(device_at), to->way.now_ns);
    text_write(to->out, ",\"name\":", name);
    /* A sum of a hostile history may have wrapped around. */
    count_write(to->out, ",\"args\":{\"bytes\":", bytes >> 63 ? 0 : bytes);
    output_text(to->out, "}}");
}

/* Writes of one device what is other than it was said to be, or all. */
static void counters_write(writer *to, size_t device_at, const course_sums *sums, int all)
{
    course_sums *said = &to->said[device_at];
    if (all || sums->live != said->live)
        counter_write(to, device_at, "live", sums->live);
    if (all || sums->waiting != said->waiting)
        counter_write(to, device_at, "waiting", sums->waiting);
    if (all || sums->reserved != said->reserved)
        counter_write(to, device_at, "reserved", sums->reserved);
    *said = *sums;
}

static void all_counters_write(writer *to, int all)
{
    for (size_t i = 0; i < to->in->devices.count; i++)
        counters_write(to, i, MODEL_AT(to->way.sums, course_sums, i), all);
}

/* The end of the history beside the picture, which is what is written. */
static void picture_write(writer *to, losses *lost)
{
    const model *in = to->in;
    course_sums *picture = MODEL_AT(to->way.sums, course_sums, 0);
    course_picture(in, picture);
    for (size_t i = 0; i < in->devices.count; i++) {
        const course_sums *end = &to->said[i], *known = &picture[i];
        if (end->live != known->live || end->waiting != known->waiting)
            losses_add(lost,
                       "device %" PRIu64 ": the history ends with %" PRIu64
                       " bytes live and %" PRIu64 " waiting, the snapshot has %" PRIu64
                       " and %" PRIu64 ", which the counters end with",
                       MODEL_AT(in->devices, device, i)->index, end->live, end->waiting,
                       known->live, known->waiting);
        counters_write(to, i, known, 1);
    }
}

/* ---- instants ------------------------------------------------------------------------------- */

static void instant_arguments(writer *to, const record *event)
{
    const model *in = to->in;
    output *out = to->out;
    count_write(out, ",\"args\":{\"thread\":", event->thread);
    if (event->bytes > 0)
        count_write(out, ",\"bytes\":", event->bytes);
    if (event->pool >= 0)
        text_write(out, ",\"pool\":", MODEL_AT(in->pools, pool, event->pool)->name);
    if (event->kind == RECORD_OOM && event->value >= 0)
        count_write(out, ",\"could_be_had\":", (uint64_t)event->value);
    if (event->kind >= RECORD_CAPTURE_BEGIN && event->kind <= RECORD_LAUNCH && event->value >= 0)
        count_write(out, ",\"graph\":", (uint64_t)event->value);
    stack_write(to, event->stack);
    output_text(out, "}}");
}

/* Records that are no block's, nor of a launch whose end is known. What belongs to no device is
 * drawn across all of them. */
static void instant_write(writer *to, size_t at)
{
    output *out = to->out;
    const record *event = MODEL_AT(to->in->records, record, at);
    size_t process = process_of(course_record_device(to->in, event));
    if (event->kind < RECORD_OOM || event->kind == RECORD_LAUNCH_OVER ||
        (event->kind == RECORD_LAUNCH && launch_has_ended(&to->graphs, at)))
        return;
    event_begin(to, "i", process, process, to->way.now_ns);
    output_text(out, event->device == DEVICE_NONE ? ",\"s\":\"g\"" : ",\"s\":\"t\"");
    output_text(out, ",\"name\":\"");
    output_text(out, record_kind_names[event->kind]);
    if (event->kind == RECORD_MARK) {
        output_text(out, ": ");
        part_write(out, model_string(to->in, event->mark));
    }
    output_text(out, "\"");
    instant_arguments(to, event);
}

/* Counters are written when time goes on: what several records of one moment lead to, once. */
static int course_write(writer *to)
{
    const model *in = to->in;
    all_counters_write(to, 1);
    for (size_t i = 0; i < in->records.count; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        if (event->time_ns > to->way.now_ns)
            all_counters_write(to, 0);
        if (course_step(&to->way, i) != 0)
            return -1;
        instant_write(to, i);
    }
    all_counters_write(to, 0);
    return 0;
}

/* ---- slices --------------------------------------------------------------------------------- */

static int larger_first(const void *left, const void *right)
{
    const life *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int earlier_first(const void *left, const void *right)
{
    const life *a = left, *b = right;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns < b->end_ns ? 1 : -1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static life *life_number(const writer *to, uint32_t at)
{
    return MODEL_AT(to->way.lives, life, at);
}

/* Whether the slice fits inside what goes on in the lane, and until when that is. What is over by
 * then leaves the lane. */
static int lane_takes(writer *to, lane *one, const life *wanted, int64_t *until_ns)
{
    while (one->top != NOTHING && life_number(to, one->top)->end_ns <= wanted->begin_ns)
        one->top = to->outers[one->top];
    *until_ns = one->top == NOTHING ? INT64_MAX : life_number(to, one->top)->end_ns;
    return one->top == NOTHING ||
           (*until_ns >= wanted->end_ns && to->depths[one->top] + 1 < DEPTH_MAX);
}

static void lane_name(writer *to, const life *first, size_t process, uint64_t thread, int number)
{
    int32_t stream_index = first->stream;
    char name[TEXT_BYTES] = "no stream";
    if (stream_index >= 0) {
        const stream *one = MODEL_AT(to->in->streams, stream, stream_index);
        const char *kind = strcmp(one->kind, "graph") == 0 ? "graphs" : "stream";
        char given[100];
        if (one->name)
            snprintf(name, sizeof(name), "%s (%s 0x%" PRIx64 "%s)",
                     model_stream_name(one, given, sizeof(given)), kind, one->handle,
                     one->ended ? ", ended" : "");
        else
            snprintf(name, sizeof(name), "%s 0x%" PRIx64 "%s", kind, one->handle,
                     one->ended ? " (ended)" : "");
    }
    if (first->is_launch)
        snprintf(name + strlen(name), sizeof(name) - strlen(name), " launches");
    if (number > 0)
        snprintf(name + strlen(name), sizeof(name) - strlen(name), " +%d", number);
    name_event(to, "thread_name", process, thread, name);
}

/* Which lanes a slice may go into: those of its stream's blocks, or of its launches. */
static size_t track_of(const writer *to, const life *one)
{
    size_t track = (size_t)(one->stream + 1);
    return one->is_launch ? track + to->in->streams.count + 1 : track;
}

/* The lane that the life goes into, with its number among those of the stream. Returns 0; 1 if the
 * stream has no more lanes; -1 without memory. */
static int lane_find(writer *to, const life *wanted, uint32_t *chosen, int *number)
{
    uint32_t *link = &to->firsts[track_of(to, wanted)];
    uint32_t last = NOTHING;
    int64_t best_ns = 0, until_ns;
    int count = 0;
    *chosen = NOTHING;
    for (uint32_t at = *link; at != NOTHING; count++) {
        lane *one = MODEL_AT(to->lanes, lane, at);
        if (lane_takes(to, one, wanted, &until_ns) && (*chosen == NOTHING || until_ns < best_ns)) {
            *chosen = at;
            *number = count;
            best_ns = until_ns;
        }
        last = at;
        at = one->next;
    }
    if (*chosen != NOTHING)
        return 0;
    if (count == LANES_MAX)
        return 1;
    size_t made = to->lanes.count;
    if (array_reserve(&to->lanes, to->in->limits, sizeof(lane), made + 1) != 0)
        return -1;
    to->lanes.count++;
    *MODEL_AT(to->lanes, lane, made) = (lane){NOTHING, NOTHING, 0};
    if (last == NOTHING)
        *link = (uint32_t)made;
    else
        MODEL_AT(to->lanes, lane, last)->next = (uint32_t)made;
    *chosen = (uint32_t)made;
    *number = count;
    return 0;
}

static void launch_write(writer *to, const life *one, size_t process, uint64_t thread)
{
    output *out = to->out;
    const ended_launch *launch = MODEL_AT(to->graphs.ended, ended_launch, one->address);
    const record *over = MODEL_AT(to->in->records, record, launch->over);
    char name[64];
    event_begin(to, "X", process, thread, one->begin_ns);
    time_write(out, ",\"dur\":", one->end_ns - one->begin_ns);
    text_write(out, ",\"cat\":\"launch\",\"name\":",
               launch_name(&to->graphs, to->in, launch->graph, name, sizeof(name)));
    output_text(out, ",\"args\":{\"end\":\"seen over\"");
    if (launch->graph >= 0)
        count_write(out, ",\"graph\":", (uint64_t)launch->graph);
    if (over->pool >= 0)
        text_write(out, ",\"pool\":", MODEL_AT(to->in->pools, pool, over->pool)->name);
    stack_write(to, one->stack);
    output_text(out, "}}");
}

static void slice_write(writer *to, const life *one, size_t process, uint64_t thread)
{
    output *out = to->out;
    char address[24];
    if (one->is_launch) {
        launch_write(to, one, process, thread);
        return;
    }
    event_begin(to, "X", process, thread, one->begin_ns);
    time_write(out, ",\"dur\":", one->end_ns - one->begin_ns);
    output_text(out, one->is_waiting ? ",\"cat\":\"waiting\"" : ",\"cat\":\"live\"");
    life_name(to, one);
    snprintf(address, sizeof(address), "0x%" PRIx64, one->address);
    text_write(out, ",\"args\":{\"address\":", address);
    count_write(out, ",\"bytes\":", one->bytes);
    count_write(out, ",\"requested_bytes\":", one->requested_bytes);
    if (one->pool >= 0)
        text_write(out, ",\"pool\":", MODEL_AT(to->in->pools, pool, one->pool)->name);
    if (one->is_early)
        output_text(out, ",\"began\":\"before the history\"");
    if (one->goes_on)
        output_text(out, ",\"ends\":\"after the snapshot\"");
    stack_write(to, one->stack);
    output_text(out, "}}");
}

/* Writes all lives that are kept, in the order in which they begin. */
static int slices_write(writer *to)
{
    for (uint32_t i = 0; i < to->way.lives.count; i++) {
        const life *one = life_number(to, i);
        uint32_t at;
        int number;
        int code = lane_find(to, one, &at, &number);
        if (code < 0)
            return -1;
        to->left_out += code == 1;
        if (code == 1)
            continue;
        lane *into = MODEL_AT(to->lanes, lane, at);
        size_t process = process_of(course_stream_device(to->in, one->stream));
        uint64_t thread = (track_of(to, one) + 1) * LANES_MAX + (uint64_t)number;
        if (!into->is_named)
            lane_name(to, one, process, thread, number);
        into->is_named = 1;
        to->outers[i] = into->top;
        to->depths[i] = (uint8_t)(into->top == NOTHING ? 0 : to->depths[into->top] + 1);
        into->top = i;
        slice_write(to, one, process, thread);
    }
    return 0;
}

/* Adds the launches whose ends were seen, as many as there may be slices of blocks: the latest. */
static int launches_add(writer *to, size_t slices_max, losses *lost)
{
    array *all = &to->way.lives;
    size_t count = to->graphs.ended.count;
    size_t first = count > slices_max ? count - slices_max : 0;
    if (first > 0)
        losses_add(lost, "%zu of %zu launches: the %zu latest are written; --slices allows more",
                   first, count, slices_max);
    if (array_reserve(all, to->in->limits, sizeof(life), all->count + count - first) != 0)
        return -1;
    for (size_t i = first; i < count; i++) {
        const ended_launch *launch = MODEL_AT(to->graphs.ended, ended_launch, i);
        const record *over = MODEL_AT(to->in->records, record, launch->over);
        all->count++;
        *MODEL_AT(*all, life, all->count - 1) = (life){
            .address = i,
            .begin_ns = launch->begin_ns,
            .end_ns = launch->end_ns,
            .pool = over->pool,
            .stream = over->stream,
            .stack =
                launch->record < 0 ? 0 : MODEL_AT(to->in->records, record, launch->record)->stack,
            .is_launch = 1,
        };
    }
    return 0;
}

/* Ends what goes on with the picture, and keeps the largest. */
static void lives_cut(writer *to, size_t slices_max, losses *lost)
{
    array *all = &to->way.lives;
    for (uint32_t i = 0; i < all->count; i++)
        if (life_number(to, i)->goes_on)
            life_number(to, i)->end_ns = to->way.now_ns;
    if (all->count > slices_max) {
        losses_add(lost, "%zu of %zu slices: the %zu largest are written; --slices allows more",
                   all->count - slices_max, all->count, slices_max);
        qsort(all->items, all->count, sizeof(life), larger_first);
        all->count = slices_max;
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int all_write(writer *to, size_t slices_max, losses *lost)
{
    const model *in = to->in;
    output *out = to->out;
    text_write(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":", in->writer_name);
    text_write(out, ",\"program\":", in->program);
    count_write(out, ",\"zero_epoch_us\":", in->zero_epoch_us);
    output_text(out, "},\"traceEvents\":[");
    processes_write(to);
    if (course_write(to) != 0)
        return -1;
    if (in->taken_ns > to->way.now_ns)
        to->way.now_ns = in->taken_ns;
    picture_write(to, lost);
    lives_cut(to, slices_max, lost);
    if (launches_add(to, slices_max, lost) != 0)
        return -1;
    size_t count = to->way.lives.count;
    size_t tracks = 2 * (in->streams.count + 1);
    if (count > 0)
        qsort(to->way.lives.items, count, sizeof(life), earlier_first);
    to->firsts = store_take(&to->place, tracks * sizeof(uint32_t));
    to->outers = store_take(&to->place, (count + 1) * sizeof(uint32_t));
    to->depths = store_take(&to->place, count + 1);
    if (to->firsts == NULL || to->outers == NULL || to->depths == NULL)
        return -1;
    for (size_t i = 0; i < tracks; i++)
        to->firsts[i] = NOTHING;
    if (slices_write(to) != 0)
        return -1;
    output_text(out, "\n]}\n");
    return to->needs_memory ? -1 : 0;
}

int encode_chrome(const model *snapshot, size_t slices_max, output *out, losses *lost)
{
    writer to = {.in = snapshot, .out = out};
    store_start(&to.place, snapshot->limits);
    int code = launches_find(&to.graphs, snapshot);
    if (course_start(&to.way, snapshot) != 0)
        code = -1;
    to.said = store_take(&to.place, (snapshot->devices.count + 1) * sizeof(course_sums));
    to.labels = store_take(&to.place, (snapshot->frames.count + 1) * sizeof(*to.labels));
    code = code == 0 && to.said && to.labels ? all_write(&to, slices_max, lost) : -1;
    if (to.way.history.contradictions_count > 0)
        losses_add(lost, "%zu record%s left out, not fitting what is there at the end",
                   to.way.history.contradictions_count,
                   tnri_plural(to.way.history.contradictions_count));
    if (to.left_out > 0)
        losses_add(lost, "%" PRIu64 " slice%s that overlap too many others", to.left_out,
                   tnri_plural(to.left_out));
    course_release(&to.way);
    launches_release(&to.graphs);
    array_release(&to.lanes, snapshot->limits, sizeof(lane));
    store_release(&to.place);
    return code;
}
