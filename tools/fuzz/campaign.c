/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See campaign.h.
 */
#include "campaign.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct campaign {
    const fuzz_campaign_options *options;
    fuzz_device *device;
    fuzz_totals *totals;
    fuzz_child children[FUZZ_JOBS_MAX];
    int running;
    uint64_t seed_next;
    uint64_t began_ns;
    int is_stopping;
    fuzz_campaign_progress progress;
    void *data;
    uint64_t told_ns;
} campaign;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int fuzz_is_failure(fuzz_verdict verdict)
{
    return verdict != FUZZ_VERDICT_OK && verdict != FUZZ_VERDICT_CAUGHT;
}

/* ---- results -------------------------------------------------------------------------------- */

static void failure_keep(campaign *self, const fuzz_child *child)
{
    const fuzz_shared *shared = child->shared;
    fuzz_totals *totals = self->totals;
    if (totals->program.ops != NULL && totals->program.setup.seed < shared->setup.seed)
        return;
    if (totals->program.ops == NULL)
        totals->operations_before = totals->operations;
    free(totals->program.ops);
    totals->program.ops = malloc((shared->count + 1) * sizeof(fuzz_op));
    totals->program.count = totals->program.ops == NULL ? 0 : shared->count;
    totals->program.room = totals->program.count;
    totals->program.setup = shared->setup;
    totals->failure = shared->result;
    totals->failure_planted = shared->planted;
    if (totals->program.ops != NULL)
        memcpy(totals->program.ops, shared->ops, shared->count * sizeof(fuzz_op));
}

static void gates_add(gate_counts *sum, const gate_counts *one)
{
    sum->placed += one->placed;
    sum->opened_drawn += one->opened_drawn;
    sum->opened_waiting += one->opened_waiting;
    sum->opened_full += one->opened_full;
    sum->overtaking += one->overtaking;
    sum->late += one->late;
    sum->reads += one->reads;
    sum->words_read += one->words_read;
    sum->words_written += one->words_written;
    sum->opening_ns += one->opening_ns;
    if (sum->kept_bytes < one->kept_bytes)
        sum->kept_bytes = one->kept_bytes;
}

static void result_add(campaign *self, const fuzz_child *child)
{
    const fuzz_shared *shared = child->shared;
    const fuzz_result *result = &shared->result;
    fuzz_totals *totals = self->totals;
    totals->programs++;
    totals->operations += result->ran;
    totals->skipped += result->skipped;
    totals->checks += result->checks;
    totals->faults_hit += result->faults_hit;
    totals->launches_refused += result->launches_refused;
    totals->failed_allocations += result->failed_allocations;
    totals->policies |= result->policies;
    totals->busy_ns += result->ns;
    totals->verdicts[result->verdict]++;
    gates_add(&totals->gates, &result->gates);
    totals->mismatches += strcmp(result->check, "contents") == 0;
    for (int i = 0; i < FUZZ_KINDS; i++) {
        totals->unavailable[i] += result->unavailable[i];
        totals->calls[i] += result->calls[i];
        totals->refused[i] += result->refused[i];
    }
    for (int i = 0; i < TNR_SERVED_COUNT; i++)
        totals->served[i] += result->served[i];
    for (int i = 0; i < TNR_REUSE_COUNT; i++)
        totals->reused[i] += result->reused[i];
    /* A sum does not depend on the order in which processes end. */
    totals->hash += (result->hash ^ shared->setup.seed) * UINT64_C(0x9e3779b97f4a7c15);
    if (shared->planted >= 0) {
        totals->planted[shared->planted] +=
            result->verdict == FUZZ_VERDICT_CAUGHT || result->verdict == FUZZ_VERDICT_MISSED;
        totals->caught[shared->planted] += result->verdict == FUZZ_VERDICT_CAUGHT;
    }
    if (fuzz_is_failure(result->verdict)) {
        failure_keep(self, child);
        self->is_stopping |= !self->options->keep_going;
    }
}

/* ---- processes ------------------------------------------------------------------------------ */

static int has_time(const campaign *self)
{
    uint64_t limit = (uint64_t)self->options->seconds_max * UINT64_C(1000000000);
    return limit == 0 || now_ns() - self->began_ns < limit;
}

static int child_next(campaign *self, fuzz_child *child)
{
    if (self->is_stopping || self->seed_next > self->options->seed_last || !has_time(self))
        return 0;
    if (fuzz_child_draw(child, self->device, self->seed_next, &self->options->limits,
                        self->options->program_seconds_max) != 0)
        return -1;
    self->seed_next++;
    self->running++;
    return 0;
}

/* Ends what still runs: their programs are incomplete, and count for nothing. */
static void children_stop(campaign *self)
{
    for (int i = 0; i < self->options->jobs; i++) {
        fuzz_child *child = &self->children[i];
        if (child->pid == 0 || child->is_stopped)
            continue;
        /* A smaller seed than the one that failed is let finish: which failure is kept then does
         * not depend on timing. */
        if (self->is_stopping && child->seed < self->totals->program.setup.seed)
            continue;
        kill(child->pid, SIGKILL);
        child->is_stopped = 1;
    }
}

/* Waits for one process, a tenth of a second at most. */
static int child_reap(campaign *self)
{
    struct timespec nap = {0, 500000};
    for (int tries = 0; tries < 200; tries++) {
        for (int i = 0; i < self->options->jobs; i++) {
            fuzz_child *child = &self->children[i];
            int status = 0;
            if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) != child->pid)
                continue;
            int stopped = child->is_stopped;
            fuzz_child_ended(child, status);
            self->running--;
            if (!stopped)
                result_add(self, child);
            return child_next(self, child);
        }
        nanosleep(&nap, NULL);
    }
    return 0;
}

static void progress_tell(campaign *self)
{
    uint64_t now = now_ns();
    self->totals->elapsed_ns = now - self->began_ns;
    if (self->progress == NULL || now - self->told_ns < 100000000)
        return;
    self->told_ns = now;
    self->progress(self->totals, self->data);
}

static int campaign_run(campaign *self)
{
    int failed = 0;
    for (int i = 0; i < self->options->jobs && !failed; i++)
        failed = child_next(self, &self->children[i]) != 0;
    while (self->running > 0) {
        /* A real device is left in peace: what runs there when the time is up may end. */
        if (failed || self->is_stopping || (!has_time(self) && !self->options->limits.gated))
            children_stop(self);
        failed |= child_reap(self) != 0;
        progress_tell(self);
    }
    return failed ? -1 : 0;
}

int fuzz_campaign(const fuzz_campaign_options *options, fuzz_device *device, fuzz_totals *totals,
                  fuzz_campaign_progress progress, void *data, char *error, size_t error_bytes)
{
    static campaign self;
    memset(&self, 0, sizeof(self));
    memset(totals, 0, sizeof(*totals));
    self.options = options;
    self.device = device;
    self.totals = totals;
    self.seed_next = options->seed_first;
    self.progress = progress;
    self.data = data;
    self.began_ns = now_ns();
    int result = 0;
    for (int i = 0; i < options->jobs && result == 0; i++)
        result = fuzz_child_open(&self.children[i], (size_t)options->limits.ops + 64, error,
                                 error_bytes);
    if (result == 0 && campaign_run(&self) != 0) {
        snprintf(error, error_bytes, "a process could not be started: %s", strerror(errno));
        result = -1;
    }
    self.totals->elapsed_ns = now_ns() - self.began_ns;
    for (int i = 0; i < options->jobs; i++)
        fuzz_child_close(&self.children[i]);
    return result;
}
