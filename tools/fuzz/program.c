/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of programs: see program.h. Writer and reader use the templates of one table, so
 * they cannot drift apart.
 */
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const templates[FUZZ_KINDS] = {
#define FUZZ_OP_TEMPLATE(name, text) text,
    FUZZ_OP_LIST(FUZZ_OP_TEMPLATE)
#undef FUZZ_OP_TEMPLATE
};

/* What the library calls and a program can bear to see fail. */
const char *const fuzz_entries[] = {
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventCreate",
    "cuEventSynchronize",
    "cuStreamWaitEvent",
    "cuCtxPushCurrent",
    "cuMemHostAlloc",
    "cuStreamSynchronize",
    "cuMemcpyDtoHAsync",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuMemAddressReserve",
    "cuDeviceCanAccessPeer",
    "cuDevicePrimaryCtxGetState",
};
const size_t fuzz_entries_count = sizeof(fuzz_entries) / sizeof(fuzz_entries[0]);
const size_t fuzz_entries_peers = 2;

/* Settings that may change at any time. The first ones are the policies of lifetimes. */
const char *const fuzz_settings[] = {
    "reuse:poll",
    "reuse:follow",
    "reuse:wait",
    "reuse_mark_percent:0",
    "reuse_mark_percent:10",
    "reuse_mark_percent:100",
    "cross_stream:wait",
    "cross_stream:idle",
    "cross_stream:off",
    "lend:off",
    "lend:on",
    "bin_blocks:0",
    "bin_blocks:3",
    "bin_blocks:32",
    "stale_mappings_max:0",
    "stale_mappings_max:2",
    "stale_mappings_max:1024",
    "move_percent:0",
    "move_percent:100",
    "move_burst_ms:0",
    "move_burst_ms:500",
    "release_threshold_mb:0",
    "release_threshold_mb:16",
    "release_threshold_mb:1048576",
    "garbage_collection_threshold:0.5",
    "garbage_collection_threshold:0",
    "max_split_size_mb:8",
    "max_split_size_mb:0",
    "roundup_power2_divisions:[1:8,>:4]",
    "roundup_power2_divisions:off",
    "chunk_max_mb:4",
    "chunk_max_mb:1024",
    "headroom_mb:0",
    "headroom_mb:8",
    "headroom_mb:40",
};
const size_t fuzz_settings_count = sizeof(fuzz_settings) / sizeof(fuzz_settings[0]);

const char *fuzz_kind_verb(fuzz_kind kind)
{
    static char verbs[FUZZ_KINDS][24];
    char *verb = verbs[kind];
    if (*verb == '\0')
        snprintf(verb, sizeof(verbs[0]), "%.*s", (int)strcspn(templates[kind], " "),
                 templates[kind]);
    return verb;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* The field that a slot letter stands for, and how many slots there are. */
static uint8_t *op_slot(fuzz_op *op, char letter, unsigned *slots)
{
    switch (letter) {
    case 'b':
        *slots = FUZZ_BLOCKS;
        return &op->block;
    case 'c':
        *slots = FUZZ_BLOCKS;
        return &op->other;
    case 's':
        *slots = FUZZ_STREAMS;
        return &op->stream;
    case 'o':
        *slots = FUZZ_STREAMS;
        return &op->other;
    case 'e':
        *slots = FUZZ_EVENTS;
        return &op->event;
    case 'p':
        *slots = FUZZ_POOLS;
        return &op->pool;
    case 'g':
        *slots = FUZZ_GRAPHS;
        return &op->graph;
    case 'd':
        *slots = FUZZ_DEVICES;
        return &op->device;
    default:
        return NULL;
    }
}

/* What a slot's name begins with: the second block or stream of an operation is one like the first.
 */
static char slot_prefix(char letter)
{
    return letter == 'c' ? 'b' : letter == 'o' ? 's' : letter;
}

static int operand_write(const fuzz_op *op, char letter, char *to, size_t room)
{
    fuzz_op copy = *op;
    unsigned slots;
    const uint8_t *slot = op_slot(&copy, letter, &slots);
    if (slot != NULL)
        return snprintf(to, room, "%c%u", slot_prefix(letter), *slot);
    if (letter == 'f')
        return snprintf(to, room, "%s", fuzz_entries[op->name]);
    if (letter == 't')
        return snprintf(to, room, "%s", fuzz_settings[op->name]);
    return snprintf(to, room, "%" PRIu64, letter == 'n' ? op->n : op->m);
}

static int name_read(const char *word, const char *const *names, size_t count, uint8_t *index)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) {
            *index = (uint8_t)i;
            return 0;
        }
    return -1;
}

static int number_read(const char *word, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(word, &end, 10);
    return *word < '0' || *word > '9' || *end != '\0' || errno != 0 ? -1 : 0;
}

static int operand_read(fuzz_op *op, char letter, const char *word)
{
    unsigned slots;
    uint64_t value;
    uint8_t *slot = op_slot(op, letter, &slots);
    if (letter == 'f')
        return name_read(word, fuzz_entries, fuzz_entries_count, &op->name);
    if (letter == 't')
        return name_read(word, fuzz_settings, fuzz_settings_count, &op->name);
    if (slot == NULL)
        return number_read(word, letter == 'n' ? &op->n : &op->m);
    if (word[0] != slot_prefix(letter) || number_read(word + 1, &value) != 0 || value >= slots)
        return -1;
    *slot = (uint8_t)value;
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

const char *fuzz_op_text(const fuzz_op *op, char *buffer, size_t bytes)
{
    size_t length = (size_t)snprintf(buffer, bytes, "%s", op->is_illegal ? "! " : "");
    for (const char *at = templates[op->kind]; *at != '\0' && length + 1 < bytes; at++) {
        int wrote = *at == '%' ? operand_write(op, *++at, buffer + length, bytes - length)
                               : snprintf(buffer + length, bytes - length, "%c", *at);
        length += (size_t)wrote;
    }
    return buffer;
}

void fuzz_program_write(const fuzz_program *program, const char *comment, FILE *file)
{
    char line[256];
    const fuzz_setup *setup = &program->setup;
    fprintf(file, "tenure-fuzz 1\n");
    for (const char *at = comment; at != NULL && *at != '\0';) {
        int length = (int)strcspn(at, "\n");
        fprintf(file, length == 0 ? "#\n" : "# %.*s\n", length, at);
        at += length + (at[length] == '\n');
    }
    fprintf(file,
            "seed %" PRIu64 "\ndevices %d\nmemory %" PRIu64 "\nschedule %s\nschedule-seed %" PRIu64
            "\n",
            setup->seed, setup->devices, setup->memory_bytes, setup->schedule,
            setup->schedule_seed);
    if (setup->conf[0] != '\0')
        fprintf(file, "conf %s\n", setup->conf);
    if (setup->peer_graphs)
        fprintf(file, "peer-graphs 1\n");
    if (setup->expect[0] != '\0')
        fprintf(file, "expect %s\n", setup->expect);
    fprintf(file, "begin\n");
    for (size_t i = 0; i < program->count; i++)
        fprintf(file, "%s\n", fuzz_op_text(&program->ops[i], line, sizeof(line)));
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Cuts the next word off the line. Null at its end, or at a comment. */
static char *word_next(char **line)
{
    char *word = *line + strspn(*line, " \t");
    if (*word == '\0' || *word == '#')
        return NULL;
    char *end = word + strcspn(word, " \t");
    *line = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

/* Reads the words after the verb along the template. */
static int op_read_operands(fuzz_op *op, char *line)
{
    const char *at = templates[op->kind];
    at += strcspn(at, " ");
    while (*at == ' ') {
        at++;
        size_t length = strcspn(at, " ");
        char *word = word_next(&line);
        if (word == NULL)
            return -1;
        if (*at == '%') {
            if (operand_read(op, at[1], word) != 0)
                return -1;
        } else if (strlen(word) != length || strncmp(at, word, length) != 0) {
            return -1;
        }
        at += length;
    }
    return word_next(&line) == NULL ? 0 : -1;
}

static int op_read(fuzz_op *op, char *line)
{
    memset(op, 0, sizeof(*op));
    char *verb = word_next(&line);
    if (strcmp(verb, "!") == 0) {
        op->is_illegal = 1;
        verb = word_next(&line);
    }
    for (int kind = 0; verb != NULL && kind < FUZZ_KINDS; kind++) {
        if (strcmp(verb, fuzz_kind_verb((fuzz_kind)kind)) != 0)
            continue;
        op->kind = (uint8_t)kind;
        return op_read_operands(op, line);
    }
    return -1;
}

static int setup_read(fuzz_setup *setup, const char *key, const char *value)
{
    uint64_t number = 0;
    int is_number = number_read(value, &number) == 0;
    if (strcmp(key, "conf") == 0) {
        snprintf(setup->conf, sizeof(setup->conf), "%s", value);
    } else if (strcmp(key, "expect") == 0) {
        snprintf(setup->expect, sizeof(setup->expect), "%s", value);
    } else if (strcmp(key, "schedule") == 0) {
        snprintf(setup->schedule, sizeof(setup->schedule), "%s", value);
        return strcmp(value, "lazy") != 0 && strcmp(value, "random") != 0 &&
               strcmp(value, "eager") != 0;
    } else if (!is_number) {
        return -1;
    } else if (strcmp(key, "seed") == 0) {
        setup->seed = number;
    } else if (strcmp(key, "devices") == 0) {
        setup->devices = (int)number;
        return number < 1 || number > FUZZ_DEVICES;
    } else if (strcmp(key, "memory") == 0) {
        setup->memory_bytes = number;
    } else if (strcmp(key, "peer-graphs") == 0 && number <= 1) {
        setup->peer_graphs = (int)number;
    } else if (strcmp(key, "schedule-seed") == 0) {
        setup->schedule_seed = number;
    } else {
        return -1;
    }
    return 0;
}

static int program_add(fuzz_program *program, const fuzz_op *op)
{
    if (program->count == program->room) {
        size_t room = program->room == 0 ? 256 : program->room * 2;
        fuzz_op *grown = realloc(program->ops, room * sizeof(*grown));
        if (grown == NULL)
            return -1;
        program->ops = grown;
        program->room = room;
    }
    program->ops[program->count++] = *op;
    return 0;
}

/* One line. Returns a sentence's end, or null. */
static const char *line_read(fuzz_program *program, char *line, int number, int *begun)
{
    fuzz_op op;
    char *rest = line;
    if (line[strspn(line, " \t")] == '\0' || line[strspn(line, " \t")] == '#')
        return NULL;
    if (number == 1)
        return strcmp(line, "tenure-fuzz 1") == 0
                   ? NULL
                   : "must be \"tenure-fuzz 1\": this is not a program";
    if (*begun)
        return op_read(&op, line) != 0          ? "is not an operation: see docs/fuzzing.md"
               : program_add(program, &op) != 0 ? "is too many: out of memory"
                                                : NULL;
    const char *key = word_next(&rest);
    *begun = strcmp(key, "begin") == 0;
    return *begun || setup_read(&program->setup, key, rest) == 0
               ? NULL
               : "is not understood: a setting of the header, or \"begin\", belongs here";
}

int fuzz_program_read(fuzz_program *program, FILE *file, char *error, size_t error_bytes)
{
    char line[512];
    int number = 0, begun = 0;
    memset(program, 0, sizeof(*program));
    program->setup.devices = 1;
    program->setup.memory_bytes = UINT64_C(256) << 20;
    snprintf(program->setup.schedule, sizeof(program->setup.schedule), "lazy");
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *wrong = line_read(program, line, ++number, &begun);
        if (wrong != NULL) {
            snprintf(error, error_bytes, "line %d %s", number, wrong);
            fuzz_program_release(program);
            return -1;
        }
    }
    if (begun)
        return 0;
    snprintf(error, error_bytes, "the file ends before \"begin\": this is not a program");
    fuzz_program_release(program);
    return -1;
}

void fuzz_program_release(fuzz_program *program)
{
    free(program->ops);
    program->ops = NULL;
    program->count = program->room = 0;
}
