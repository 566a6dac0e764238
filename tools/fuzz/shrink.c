/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shrinker: delta debugging (Zeller and Hildebrandt, 2002) over the list of operations, then
 * over sizes and settings. It need not know what operations mean. If an operation becomes
 * impossible or illegal because others were taken out, it is skipped when the program runs, and
 * left out of the next candidate.
 */
#include "shrink.h"

#include <stdlib.h>
#include <time.h>

typedef struct shrinker {
    fuzz_program *best;
    fuzz_program candidate;
    fuzz_result failed; /* how the original, and now the best, fails */
    fuzz_child *child;
    fuzz_device *device;
    uint64_t tries;
    time_t deadline;
    fuzz_shrink_progress progress;
    void *data;
} shrinker;

static int is_late(const shrinker *self)
{
    return time(NULL) >= self->deadline;
}

/* Where gates decide what runs, a little is still left to the device and the time that it takes: a
 * program must fail so often in a row, and the first one is given more chances to. */
enum { RUNS_GATED = 2, CHANCES_GATED = 5 };

/* Runs the candidate. Returns 1 if it fails in the same way. */
static int candidate_fails(shrinker *self)
{
    fuzz_result *result = &self->child->shared->result;
    /* Complete checks cost; the shorter the program, the more of them. */
    uint64_t every = self->candidate.count / 200 + 1;
    self->tries++;
    if (fuzz_child_replay(self->child, self->device, &self->candidate, every, 0, 20) != 0)
        return 0;
    fuzz_child_wait(self->child);
    return result->verdict == self->failed.verdict &&
           strcmp(result->check, self->failed.check) == 0;
}

/* If the candidate fails in the same way it becomes the best. */
static int attempt(shrinker *self)
{
    fuzz_result *result = &self->child->shared->result;
    int fails = candidate_fails(self);
    for (int run = 1; self->device->is_gated && fails && run < RUNS_GATED; run++)
        fails = candidate_fails(self);
    if (!fails)
        return 0;
    self->failed = *result;
    /* What came after the failure had no part in it. */
    if (result->step + 1 < self->candidate.count)
        self->candidate.count = (size_t)result->step + 1;
    memcpy(self->best->ops, self->candidate.ops, self->candidate.count * sizeof(fuzz_op));
    self->best->count = self->candidate.count;
    self->best->setup = self->candidate.setup;
    if (self->progress != NULL)
        self->progress(self->best->count, self->tries, self->data);
    return 1;
}

/* The best without the operations from `first` on, `length` of them. */
static int attempt_without(shrinker *self, size_t first, size_t length)
{
    const fuzz_program *best = self->best;
    size_t after = first + length < best->count ? best->count - first - length : 0;
    memcpy(self->candidate.ops, best->ops, first * sizeof(fuzz_op));
    memcpy(self->candidate.ops + first, best->ops + first + length, after * sizeof(fuzz_op));
    self->candidate.count = first + after;
    self->candidate.setup = best->setup;
    return attempt(self);
}

/* Takes out pieces, from the end because what matters lies there, smaller and smaller ones. */
static void shrink_list(shrinker *self)
{
    for (size_t length = self->best->count / 2; length > 0 && !is_late(self);) {
        int took = 0;
        for (size_t end = self->best->count; end > 0 && !is_late(self);) {
            size_t first = end > length ? end - length : 0;
            took |= attempt_without(self, first, end - first);
            end = first < self->best->count ? first : self->best->count;
        }
        if (!took || length > 1)
            length /= 2;
    }
}

static void candidate_copy(shrinker *self)
{
    memcpy(self->candidate.ops, self->best->ops, self->best->count * sizeof(fuzz_op));
    self->candidate.count = self->best->count;
    self->candidate.setup = self->best->setup;
}

/* Rounder numbers are easier to read: sizes become powers of two, offsets 0. */
static void shrink_numbers(shrinker *self)
{
    static const uint64_t sizes[] = {512, 4096, 1 << 20, 2 << 20, 4 << 20};
    for (size_t i = 0; i < self->best->count && !is_late(self); i++) {
        const fuzz_op *op = &self->best->ops[i];
        int is_size = op->kind == FUZZ_MALLOC || op->kind == FUZZ_ROUTED ||
                      op->kind == FUZZ_ALIGNED || op->kind == FUZZ_RESERVE;
        if ((op->kind == FUZZ_USE || op->kind == FUZZ_USE_STREAM) && op->n != 0) {
            candidate_copy(self);
            self->candidate.ops[i].n = 0;
            (void)attempt(self);
        }
        for (size_t s = 0; is_size && s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            if (sizes[s] >= op->n)
                break;
            candidate_copy(self);
            self->candidate.ops[i].n = sizes[s];
            if (attempt(self))
                break;
        }
    }
}

/* Settings that play no part, one by one. */
static void shrink_setup(shrinker *self)
{
    for (size_t at = 0; self->best->setup.conf[at] != '\0' && !is_late(self);) {
        candidate_copy(self);
        char *conf = self->candidate.setup.conf;
        size_t length = strcspn(conf + at, ",");
        size_t next = at + length + (conf[at + length] == ',');
        memmove(conf + at, conf + next, strlen(conf + next) + 1);
        if (conf[at] == '\0' && at > 0)
            conf[at - 1] = '\0';
        if (!attempt(self))
            at = next;
    }
    candidate_copy(self);
    if (strcmp(self->candidate.setup.schedule, "lazy") != 0) {
        snprintf(self->candidate.setup.schedule, sizeof(self->candidate.setup.schedule), "lazy");
        (void)attempt(self);
    }
    candidate_copy(self);
    if (self->candidate.setup.devices > 1) {
        self->candidate.setup.devices = 1;
        (void)attempt(self);
    }
}

uint64_t fuzz_shrink(fuzz_program *program, fuzz_result *result, fuzz_child *child,
                     fuzz_device *device, unsigned seconds_max, fuzz_shrink_progress progress,
                     void *data)
{
    shrinker self = {.best = program,
                     .failed = *result,
                     .child = child,
                     .device = device,
                     .deadline = time(NULL) + (time_t)seconds_max,
                     .progress = progress,
                     .data = data};
    self.candidate.ops = malloc((program->count + 1) * sizeof(fuzz_op));
    if (self.candidate.ops == NULL)
        return 0;
    candidate_copy(&self);
    size_t before = 0;
    int fails = attempt(&self);
    for (int chance = 1; device->is_gated && !fails && chance < CHANCES_GATED; chance++)
        fails = attempt(&self);
    if (!fails && child->shared->result.verdict != FUZZ_VERDICT_OK) {
        /* With more checks it is seen earlier, as something else: the better thing to look at. */
        self.failed = child->shared->result;
        candidate_copy(&self);
        fails = attempt(&self);
    }
    if (fails) {
        while (before != self.best->count && !is_late(&self)) {
            before = self.best->count;
            shrink_list(&self);
        }
        shrink_setup(&self);
        shrink_numbers(&self);
        shrink_list(&self);
        *result = self.failed;
    } else {
        self.tries = 0;
    }
    free(self.candidate.ops);
    return self.tries;
}
