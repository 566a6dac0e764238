/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure explain`: which block an address is in, was in, or lies beside, as a snapshot knows it.
 * The picture says what is there, the history what was there. Blocks beside the address are looked
 * for on both sides: blocks that somebody has, and blocks that the history saw.
 */
#include "base/plural.h"
#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holders.h"
#include "json.h"
#include "shown.h"
#include "table.h"

/* What is farther away is not beside. */
enum { WIDTH = 96, FAR_BYTES = 64 << 20 };

static int is_json;
static long top_count = 10;

static const cli_option options[] = {
    {"top", "N", "records of the history that are shown, the latest first (default 10)",
     &snapshot_common.top, NULL},
    {"json", NULL, OPTION_JSON_HELP, NULL, &is_json},
    SNAPSHOT_FRAMES_OPTION,
    SNAPSHOT_SYMBOLS_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax syntax = {
    "explain",
    "which block an address is in, was in, or lies beside",
    "[options] ADDRESS FILE",
    "ADDRESS is hexadecimal: 0x7f1e2a000200, as compute-sanitizer, the kernel's log (Xid 31) and\n"
    "the simulated device write it; \"_\" in it is ignored. " SNAPSHOT_FILES
    "What was freed is in the history alone: take the snapshot with --history "
    "full.\n\n"
    "Examples:\n"
    "  tenure explain 0x7f1e2a000200 memory.json\n"
    "\n" SNAPSHOT_EXIT_CODES,
    options,
    2,
    2,
};

/* What an address may lie beside. */
typedef struct neighbour {
    uint64_t address, requested_bytes;
    const block *held; /* somebody has it; null: it was freed, and this is its allocation: */
    const record *made;
} neighbour;

/* All that is said. */
typedef struct answer {
    const model *in;
    uint64_t address;
    const segment *around;  /* null: the address has no memory of Tenure's */
    const block *inside;    /* likewise */
    neighbour below, above; /* address 0: none */
    array past;             /* const record *, of blocks and memory at the address, latest first */
    int has_past;           /* 1: a block was there */
} answer;

/* ---- finding -------------------------------------------------------------------------------- */

static int contains(uint64_t base, uint64_t bytes, uint64_t address)
{
    return address >= base && address - base < bytes;
}

static int is_of_block(const record *one)
{
    return one->kind == RECORD_ALLOC || one->kind == RECORD_FREE || one->kind == RECORD_RETIRE ||
           one->kind == RECORD_REUSE || one->kind == RECORD_GROW;
}

static int is_of_memory(const record *one)
{
    return one->kind == RECORD_MAP || one->kind == RECORD_UNMAP || one->kind == RECORD_MOVE_IN ||
           one->kind == RECORD_MOVE_OUT;
}

static void neighbour_offer(answer *to, uint64_t address, uint64_t requested, const block *held,
                            const record *made)
{
    neighbour one = {address, requested, held, made};
    uint64_t end = address + requested;
    if (requested == 0 || contains(address, requested, to->address))
        return;
    if (address > to->address) {
        if (address - to->address < FAR_BYTES &&
            (to->above.address == 0 || address < to->above.address))
            to->above = one;
    } else if (to->address - end < FAR_BYTES &&
               end > to->below.address + to->below.requested_bytes) {
        to->below = one;
    }
}

static void blocks_look(answer *to)
{
    const model *in = to->in;
    to->around = model_segment_at(in, to->address);
    for (size_t i = 0; i < in->blocks.count; i++) {
        const block *one = MODEL_AT(in->blocks, block, i);
        if (contains(one->address, one->bytes, to->address))
            to->inside = one;
        if (one->state == STATE_LIVE || one->state == STATE_RETIRED)
            neighbour_offer(to, one->address, one->requested_bytes, one, NULL);
    }
}

/* Returns 0, or -1 without memory. */
static int records_look(answer *to)
{
    const model *in = to->in;
    for (size_t i = in->records.count; i-- > 0;) {
        const record *one = MODEL_AT(in->records, record, i);
        int is_there = contains(one->address, one->bytes, to->address);
        if (one->kind == RECORD_ALLOC && !is_there)
            neighbour_offer(to, one->address, one->requested_bytes, NULL, one);
        if (!is_there || (!is_of_block(one) && !is_of_memory(one)))
            continue;
        to->has_past |= is_of_block(one);
        if (array_reserve(&to->past, in->limits, sizeof(one), to->past.count + 1) != 0)
            return -1;
        *MODEL_AT(to->past, const record *, to->past.count++) = one;
    }
    return 0;
}

/* The latest free of a block that had the address; null: none. */
static const record *last_free(const answer *from)
{
    for (size_t i = 0; i < from->past.count; i++) {
        const record *one = *MODEL_AT(from->past, const record *, i);
        if (one->kind == RECORD_FREE || one->kind == RECORD_RETIRE)
            return one;
    }
    return NULL;
}

/* The allocation before it. */
static const record *alloc_before(const answer *from, const record *freed)
{
    int is_past = 0;
    for (size_t i = 0; i < from->past.count; i++) {
        const record *one = *MODEL_AT(from->past, const record *, i);
        is_past |= one == freed;
        if (is_past && one->kind == RECORD_ALLOC && one->address == freed->address)
            return one;
    }
    return NULL;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A long text in lines of WIDTH, each with this indentation. */
static void wrapped_print(const char *text, int indent)
{
    while (*text) {
        size_t room = (size_t)(WIDTH - indent), length = strlen(text), cut = length;
        if (length > room)
            for (cut = room; cut > 0 && text[cut] != ' ';)
                cut--;
        if (cut == 0)
            cut = length < room ? length : room;
        say(stdout, "%*s%.*s\n", indent, "", (int)cut, text);
        text += cut + (text[cut] == ' ');
    }
}

static void stack_print(const model *in, const char *what, uint32_t index)
{
    char label[LABEL_BYTES];
    if (MODEL_AT(in->stacks, stack, index)->count == 0) {
        printf("  %s: the stack was not recorded\n", what);
        return;
    }
    printf("  %s at\n", what);
    wrapped_print(stack_label(in, index, label, sizeof(label)), 4);
}

/* "block 0x.. of 5000 bytes" */
static void block_name_print(uint64_t address, uint64_t requested)
{
    printf("block 0x%" PRIx64 " of %" PRIu64 " byte%s", address, requested, tnri_plural(requested));
}

static void place_print(const model *in, int32_t pool_index, int32_t stream_index)
{
    if (pool_index >= 0) {
        const pool *one = MODEL_AT(in->pools, pool, pool_index);
        say(stdout, "  device %" PRIu64 ", pool \"%s\"", one->device, one->name);
    }
    if (stream_index >= 0) {
        const stream *one = MODEL_AT(in->streams, stream, stream_index);
        printf(", stream 0x%" PRIx64 "%s", one->handle, one->ended ? " (destroyed)" : "");
        char name[80];
        if (one->name)
            say(stdout, " \"%s\"", model_stream_name(one, name, sizeof(name)));
    }
    putchar('\n');
}

static void inside_print(const answer *from)
{
    static const char *const states[] = {"live",
                                         "freed, and waits for work that may use it",
                                         "free",
                                         "free",
                                         "on its way back to the driver",
                                         "being given memory"};
    const block *one = from->inside;
    uint64_t offset = from->address - one->address;
    int is_held = one->state == STATE_LIVE || one->state == STATE_RETIRED;
    printf("0x%" PRIx64 " is ", from->address);
    if (!is_held) {
        printf("in memory that is %s\n", states[one->state]);
    } else if (offset < one->requested_bytes) {
        printf("%" PRIu64 " byte%s into ", offset, tnri_plural(offset));
        block_name_print(one->address, one->requested_bytes);
        printf(", which is %s\n", states[one->state]);
    } else {
        offset -= one->requested_bytes;
        printf("%" PRIu64 " byte%s behind the end of ", offset, tnri_plural(offset));
        block_name_print(one->address, one->requested_bytes);
        printf(", which is %s: in its rounding\n", states[one->state]);
    }
    place_print(from->in, from->around->pool, from->around->stream);
    if (is_held)
        stack_print(from->in, "allocated", one->stack);
}

static void freed_print(const answer *from)
{
    const record *freed = last_free(from);
    const record *made = freed ? alloc_before(from, freed) : NULL;
    if (!freed)
        return;
    uint64_t offset = from->address - freed->address;
    printf("0x%" PRIx64 " was %" PRIu64 " byte%s into ", from->address, offset,
           tnri_plural(offset));
    block_name_print(freed->address, freed->requested_bytes);
    printf(", which was freed");
    if (freed->time_ns >= 0 && from->in->taken_ns >= freed->time_ns)
        printf(" %.3f ms before the snapshot", (double)(from->in->taken_ns - freed->time_ns) / 1e6);
    putchar('\n');
    place_print(from->in, freed->pool, freed->stream);
    if (made)
        stack_print(from->in, "allocated", made->stack);
    stack_print(from->in, "freed", freed->stack);
}

static void neighbour_print(const answer *from, const neighbour *one)
{
    uint64_t end = one->address + one->requested_bytes;
    int is_above = one->address > from->address;
    uint64_t distance = is_above ? one->address - from->address : from->address - end;
    if (one->address == 0)
        return;
    printf("0x%" PRIx64 " is %" PRIu64 " byte%s %s ", from->address, distance,
           tnri_plural(distance), is_above ? "before the start of" : "behind the end of");
    block_name_print(one->address, one->requested_bytes);
    printf("%s\n", one->held ? "" : ", which was allocated once");
    stack_print(from->in, "allocated", one->held ? one->held->stack : one->made->stack);
}

static void past_print(const answer *from)
{
    table out;
    if (from->past.count == 0)
        return;
    TABLE_HEAD(&out, "What happened there", "ms before", "address", "bytes", "thread");
    for (size_t i = 0; i < from->past.count && i < (size_t)top_count; i++) {
        const record *one = *MODEL_AT(from->past, const record *, i);
        table_row(&out);
        table_cell(&out, "%s", record_kind_names[one->kind]);
        if (one->time_ns >= 0)
            table_cell(&out, "%.3f", (double)(from->in->taken_ns - one->time_ns) / 1e6);
        else
            table_cell(&out, "?");
        table_cell(&out, "0x%" PRIx64, one->address);
        table_cell(&out, "%" PRIu64, is_of_block(one) ? one->requested_bytes : one->bytes);
        table_cell(&out, "%" PRIu32, one->thread);
    }
    putchar('\n');
    table_print(&out, stdout);
    if ((size_t)top_count < from->past.count)
        printf("... and %zu more (--top)\n", from->past.count - (size_t)top_count);
    table_release(&out);
}

static void text_print(const answer *from)
{
    int is_held =
        from->inside && (from->inside->state == STATE_LIVE || from->inside->state == STATE_RETIRED);
    if (from->inside)
        inside_print(from);
    else
        printf("0x%" PRIx64 " has no memory of Tenure's%s\n", from->address,
               from->has_past ? " now" : ", and had none that the snapshot knows of");
    if (!is_held || from->inside->state == STATE_RETIRED)
        freed_print(from);
    if (!is_held) {
        neighbour_print(from, &from->below);
        neighbour_print(from, &from->above);
    }
    past_print(from);
    if (from->in->records.count == 0)
        puts("There is no history: what was freed is in one (--history full).");
    else if (from->in->history.overwritten > 0)
        printf("The history is not whole: %" PRIu64 " older record%s %s overwritten "
               "(history_records).\n",
               from->in->history.overwritten, tnri_plural(from->in->history.overwritten),
               from->in->history.overwritten == 1 ? "was" : "were");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void hex_json(json_writer *json, const char *key, uint64_t address)
{
    char text[24];
    snprintf(text, sizeof(text), "0x%" PRIx64, address);
    json_text(json, key, text);
}

static void stack_json(json_writer *json, const char *key, const model *in, uint32_t index)
{
    char label[LABEL_BYTES];
    int is_known = MODEL_AT(in->stacks, stack, index)->count > 0;
    json_text(json, key, is_known ? stack_label(in, index, label, sizeof(label)) : NULL);
}

static void neighbour_json(json_writer *json, const answer *from, const char *key,
                           const neighbour *one)
{
    if (one->address == 0)
        return;
    int is_above = one->address > from->address;
    json_object_begin(json, key);
    hex_json(json, "address", one->address);
    json_unsigned(json, "bytes", one->requested_bytes);
    json_unsigned(json, "distance",
                  is_above ? one->address - from->address
                           : from->address - one->address - one->requested_bytes);
    json_boolean(json, "live", one->held && one->held->state == STATE_LIVE);
    stack_json(json, "allocated", from->in, one->held ? one->held->stack : one->made->stack);
    json_object_end(json);
}

static void inside_json(json_writer *json, const answer *from)
{
    if (!from->inside)
        return;
    json_object_begin(json, "block");
    hex_json(json, "address", from->inside->address);
    json_text(json, "state", state_names[from->inside->state]);
    json_unsigned(json, "bytes", from->inside->requested_bytes);
    json_unsigned(json, "rounded_bytes", from->inside->bytes);
    json_unsigned(json, "offset", from->address - from->inside->address);
    stack_json(json, "allocated", from->in, from->inside->stack);
    json_object_end(json);
}

static void freed_json(json_writer *json, const answer *from)
{
    const record *freed = last_free(from);
    if (!freed)
        return;
    const record *made = alloc_before(from, freed);
    json_object_begin(json, "freed");
    hex_json(json, "address", freed->address);
    json_unsigned(json, "bytes", freed->requested_bytes);
    json_unsigned(json, "offset", from->address - freed->address);
    if (freed->time_ns >= 0 && from->in->taken_ns >= freed->time_ns)
        json_unsigned(json, "ns_before", (uint64_t)(from->in->taken_ns - freed->time_ns));
    if (made)
        stack_json(json, "allocated", from->in, made->stack);
    stack_json(json, "freed", from->in, freed->stack);
    json_object_end(json);
}

static void json_print(const answer *from)
{
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    hex_json(&json, "address", from->address);
    inside_json(&json, from);
    freed_json(&json, from);
    neighbour_json(&json, from, "below", &from->below);
    neighbour_json(&json, from, "above", &from->above);
    json_array_begin(&json, "past");
    for (size_t i = 0; i < from->past.count; i++) {
        const record *one = *MODEL_AT(from->past, const record *, i);
        json_object_begin(&json, NULL);
        json_text(&json, "kind", record_kind_names[one->kind]);
        hex_json(&json, "address", one->address);
        json_unsigned(&json, "bytes", one->bytes);
        json_unsigned(&json, "requested_bytes", one->requested_bytes);
        stack_json(&json, "stack", from->in, one->stack);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_unsigned(&json, "overwritten", from->in->history.overwritten);
    json_object_end(&json);
    json_end(&json);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Reads the address. Returns 0, or -1 after a message. */
static int address_parse(const char *text, uint64_t *address)
{
    char digits[32];
    size_t count = 0;
    const char *from = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? text + 2 : "";
    for (; *from && count < sizeof(digits) - 1; from++)
        if (*from != '_')
            digits[count++] = *from;
    digits[count] = '\0';
    if (count > 0 && *from == '\0' && strspn(digits, "0123456789abcdefABCDEF") == count) {
        errno = 0;
        *address = strtoull(digits, NULL, 16);
        if (errno == 0 && *address != 0)
            return 0;
    }
    (void)cli_usage_error(&syntax, "\"%s\" is not an address: write it as 0x7f1e2a000200", text);
    return -1;
}

int command_explain(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model snapshot;
    uint64_t address;
    exit_code code;
    if (!snapshot_begin(&syntax, argc, argv, &parsed, &top_count, &limits, &code))
        return code;
    if (address_parse(parsed.positionals[0], &address) != 0)
        return EXIT_CODE_BAD_INPUT;
    code = snapshot_load_short(&syntax, parsed.positionals[1], &limits, &snapshot);
    if (code == EXIT_CODE_OK) {
        answer from = {.in = &snapshot, .address = address};
        blocks_look(&from);
        if (records_look(&from) != 0)
            code = snapshot_no_memory(&syntax, &limits);
        else if (is_json)
            json_print(&from);
        else
            text_print(&from);
        array_release(&from.past, &limits, sizeof(const record *));
    }
    model_release(&snapshot);
    return code;
}
