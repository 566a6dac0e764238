/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the race detector says: labels of origins, and reports.
 *
 * Labels are kept in a ring of 65,536 and known by their number. A label given before the latest
 * 65,536 reads "(forgotten)". If a text comes again soon, it keeps its number.
 */
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS (UINT32_C(1) << 16)
enum {
    LABEL_BYTES = 64,
    LABEL_HASHES = 256,
    PRINTED = 50 /* reports printed; further ones are only counted */
};

static char (*labels)[LABEL_BYTES]; /* made when first needed */
static uint32_t label_last;
static uint32_t label_recent[LABEL_HASHES]; /* the latest number of a text with that hash, or 0 */

static uint64_t counts[SIMCUDA_REPORT_KINDS];
static uint64_t total;
static char last[1024];
static simcuda_report_function callback;
static void *callback_data;

/* ---- labels --------------------------------------------------------------------------------- */

void sim_text_copy(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

static uint32_t label_hash(const char *text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (int i = 0; i < LABEL_BYTES - 1 && text[i] != '\0'; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619);
    return (hash ^ hash >> 16) % LABEL_HASHES;
}

/* A number for the text; 0, which stands for no label, when memory is short. */
uint32_t sim_label_new(const char *text)
{
    if (labels == NULL) {
        labels = calloc(LABELS, sizeof(*labels));
        if (labels == NULL)
            return 0;
    }
    uint32_t *recent = &label_recent[label_hash(text)];
    if (*recent != 0 && label_last - *recent < LABELS / 2 &&
        strncmp(labels[*recent % LABELS], text, LABEL_BYTES - 1) == 0)
        return *recent;
    *recent = ++label_last;
    sim_text_copy(labels[label_last % LABELS], LABEL_BYTES, text);
    return label_last;
}

const char *sim_label_text(uint32_t label)
{
    if (label == 0 || labels == NULL)
        return "";
    return label_last - label < LABELS ? labels[label % LABELS] : "(forgotten)";
}

void simcuda_origin(const char *label)
{
    sim_lock();
    struct sim_thread *thread = sim_thread();
    const char *text = label == NULL ? "" : label;
    if (strncmp(sim_label_text(thread->origin), text, LABEL_BYTES - 1) != 0)
        thread->origin = text[0] == '\0' ? 0 : sim_label_new(text);
    sim_unlock();
}

/* ---- reports -------------------------------------------------------------------------------- */

static void describe(char *text, size_t room, const simcuda_touch *touch)
{
    int used = snprintf(text, room, "%s [0x%llx, +%llu)", touch->what,
                        (unsigned long long)touch->address, (unsigned long long)touch->bytes);
    if (used > 0 && touch->stream_id != 0)
        used += snprintf(text + used, room - (size_t)used,
                         touch->is_node ? " %s, node %llu of a graph in stream %llu"
                                        : " %s, number %llu of stream %llu",
                         touch->is_write ? "writing" : "reading", (unsigned long long)touch->number,
                         (unsigned long long)touch->stream_id);
    if (used > 0 && touch->label != NULL && touch->label[0] != '\0')
        used += snprintf(text + used, room - (size_t)used, ", at '%s'", touch->label);
    if (used > 0 && touch->owner != NULL && touch->owner[0] != '\0')
        snprintf(text + used, room - (size_t)used, ", of '%s'", touch->owner);
}

static void publish(simcuda_report *report)
{
    report->text = last;
    counts[report->kind]++;
    total++;
    int is_observed = report->kind == SIMCUDA_RACE && sim_observe_race(report);
    if (callback != NULL)
        callback(report, callback_data);
    else if (is_observed)
        ; /* who observes says it */
    else if (total <= PRINTED)
        fprintf(stderr, "simcuda: %s\n", last);
    else if (total == PRINTED + 1)
        fprintf(stderr, "simcuda: further reports of the race detector are only counted\n");
    if (sim.settings.abort_on_violation && !is_observed)
        abort();
}

static simcuda_touch touch_public(const struct sim_touch *touch, uint64_t offset, uint64_t bytes)
{
    simcuda_touch out;
    memset(&out, 0, sizeof(out));
    out.what = sim_entry_symbol(touch->entry);
    out.label = sim_label_text(touch->label);
    out.owner = sim_label_text(touch->owner);
    out.stream_id = touch->stream_id;
    out.number = touch->number;
    out.is_node = touch->is_node;
    out.address = offset + touch->delta;
    out.bytes = bytes;
    out.is_write = touch->is_write;
    out.tag = touch->tag;
    out.queued = touch->ticket;
    return out;
}

void sim_report_race(const struct sim_touch *earlier, const struct sim_touch *later,
                     uint64_t offset, uint64_t bytes)
{
    char texts[2][400];
    simcuda_report report;
    memset(&report, 0, sizeof(report));
    report.kind = SIMCUDA_RACE;
    report.earlier = touch_public(earlier, offset, bytes);
    report.later = touch_public(later, offset, bytes);
    describe(texts[0], sizeof(texts[0]), &report.earlier);
    describe(texts[1], sizeof(texts[1]), &report.later);
    snprintf(last, sizeof(last), "race: %s; and %s: nothing orders them", texts[0], texts[1]);
    publish(&report);
}

void sim_report_unfinished(const struct sim_touch *earlier, uint64_t offset, uint64_t bytes,
                           const char *by)
{
    char text[400];
    simcuda_report report;
    memset(&report, 0, sizeof(report));
    report.kind = SIMCUDA_UNFINISHED;
    report.earlier = touch_public(earlier, offset, bytes);
    report.later.what = by;
    report.later.label = sim_label_text(sim_thread()->origin);
    report.later.owner = "";
    report.later.address = report.earlier.address;
    report.later.bytes = bytes;
    describe(text, sizeof(text), &report.earlier);
    snprintf(last, sizeof(last), "not known to be finished: %s; and %s takes the memory away%s%s%s",
             text, report.later.what, report.later.label[0] == '\0' ? "" : ", at '",
             report.later.label, report.later.label[0] == '\0' ? "" : "'");
    publish(&report);
}

void sim_report_owner(simcuda_report_kind kind, const simcuda_touch *earlier,
                      const simcuda_touch *later, const simcuda_touch *allocation)
{
    static const char *const what[SIMCUDA_REPORT_KINDS] = {
        [SIMCUDA_USE_AFTER_FREE] = "use after free",
        [SIMCUDA_OVERRUN] = "out of its block",
        [SIMCUDA_NO_OWNER] = "no owner",
        [SIMCUDA_TWO_OWNERS] = "two owners",
    };
    char texts[3][300] = {"", "", ""};
    simcuda_report report;
    memset(&report, 0, sizeof(report));
    report.kind = kind;
    report.earlier = *earlier;
    report.later = *later;
    report.allocation = *allocation;
    describe(texts[0], sizeof(texts[0]), later);
    if (earlier->what != NULL)
        describe(texts[1], sizeof(texts[1]), earlier);
    if (allocation->what != NULL && kind != SIMCUDA_TWO_OWNERS)
        describe(texts[2], sizeof(texts[2]), allocation);
    snprintf(last, sizeof(last), "%s: %s%s%s%s%s", what[kind], texts[0],
             texts[1][0] == '\0' ? "" : "; after ", texts[1],
             texts[2][0] == '\0' ? "" : "; allocated: ", texts[2]);
    publish(&report);
}

/* ---- control -------------------------------------------------------------------------------- */

uint64_t simcuda_races(void)
{
    sim_lock();
    uint64_t count = total;
    sim_unlock();
    return count;
}

uint64_t simcuda_races_of(simcuda_report_kind kind)
{
    sim_lock();
    uint64_t count = (unsigned)kind < SIMCUDA_REPORT_KINDS ? counts[kind] : 0;
    sim_unlock();
    return count;
}

const char *simcuda_race_last(void)
{
    static _Thread_local char copy[sizeof(last)];
    sim_lock();
    memcpy(copy, last, sizeof(copy));
    sim_unlock();
    return copy;
}

static void clear_counts(void)
{
    memset(counts, 0, sizeof(counts));
    total = 0;
    last[0] = '\0';
}

void simcuda_races_clear(void)
{
    sim_lock();
    clear_counts();
    sim_unlock();
}

void simcuda_races_callback(simcuda_report_function function, void *data)
{
    sim_lock();
    callback = function;
    callback_data = data;
    sim_unlock();
}

void sim_report_reset(void)
{
    clear_counts();
    label_last = 0; /* their memory stays, for the next ones */
    memset(label_recent, 0, sizeof(label_recent));
    callback = NULL;
    callback_data = NULL;
}
