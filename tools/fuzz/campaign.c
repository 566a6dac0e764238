/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See campaign.h.
 */
#include "campaign.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct campaign {
    const fuzz_campaign_options *options;
    fuzz_device *device;
    fuzz_totals *totals;
    fuzz_child children[FUZZ_JOBS_MAX];
    /* Of each child: what its program gave in a process that was not new, while it is run again in
     * one that is. OK: nothing of that kind. */
    fuzz_result first[FUZZ_JOBS_MAX];
    char first_seeds[FUZZ_JOBS_MAX][64];
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
    totals->by_peers += result->by_peers;
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
    } else if (self->options->keeps_program) {
        failure_keep(self, child);
    }
}

/* ---- processes ------------------------------------------------------------------------------ */

static int has_time(const campaign *self)
{
    uint64_t limit = (uint64_t)self->options->seconds_max * UINT64_C(1000000000);
    return limit == 0 || now_ns() - self->began_ns < limit;
}

static int seed_draw(campaign *self, fuzz_child *child, uint64_t seed)
{
    return fuzz_child_draw(child, self->device, seed, &self->options->limits,
                           self->options->program_seconds_max);
}

static int has_seeds(const campaign *self)
{
    return !self->is_stopping && self->seed_next <= self->options->seed_last && has_time(self);
}

/* A program for a child that has none, and one ahead where its process may run several. */
static int child_feed(campaign *self, fuzz_child *child)
{
    int is_fresh_each = fuzz_child_is_fresh_each(self->device, &self->options->limits);
    while (has_seeds(self) && (child->pid == 0 || (!is_fresh_each && !child->has_ahead)))
        if (seed_draw(self, child, self->seed_next++) != 0)
            return -1;
    return 0;
}

/* A failure after other programs in the same process: is it the program's? Then it fails alone, and
 * that is what counts. Returns 1 if it has been started again. */
static int child_again(campaign *self, int number)
{
    fuzz_child *child = &self->children[number];
    fuzz_result *result = &child->shared->result;
    if (child->programs == 0 || !fuzz_is_failure(result->verdict) || child->pid != 0)
        return 0;
    self->first[number] = *result;
    snprintf(self->first_seeds[number], sizeof(self->first_seeds[number]),
             "%" PRIu64 " and %d others before %" PRIu64, child->seed_first, child->programs - 1,
             child->seed);
    return seed_draw(self, child, child->seed) == 0;
}

/* It has been run alone: where that went well, what the programs before it left is the failure. */
static void child_compare(campaign *self, int number)
{
    fuzz_result *first = &self->first[number];
    fuzz_result *result = &self->children[number].shared->result;
    if (first->verdict != FUZZ_VERDICT_OK && !fuzz_is_failure(result->verdict)) {
        *result = *first;
        snprintf(result->text, sizeof(result->text),
                 "only in a process that ran seeds %s, not in a new one: %.1200s",
                 self->first_seeds[number], first->text);
    }
    first->verdict = FUZZ_VERDICT_OK;
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

/* The process is ready for another program, and has none or one that was ahead. */
static int child_done(campaign *self, int number)
{
    fuzz_child *child = &self->children[number];
    child_compare(self, number);
    result_add(self, child);
    if (!fuzz_child_advance(child))
        fuzz_child_dismiss(child);
    return child_feed(self, child);
}

/* The process has ended, with its program; what was ahead has not begun. */
static int child_gone(campaign *self, int number)
{
    fuzz_child *child = &self->children[number];
    int failed = 0;
    int was_ahead = child->has_ahead;
    child->has_ahead = 0;
    if (child->is_stopped)
        return 0;
    if (!child_again(self, number)) {
        child_compare(self, number);
        result_add(self, child);
    }
    if (was_ahead)
        failed |= seed_draw(self, child, child->ahead) != 0;
    return failed | (child_feed(self, child) != 0);
}

/* Waits for programs to end, a tenth of a second at most. */
static int children_hear(campaign *self)
{
    struct pollfd links[FUZZ_JOBS_MAX];
    int failed = 0;
    for (int i = 0; i < self->options->jobs; i++)
        links[i] = (struct pollfd){self->children[i].link, POLLIN, 0}; /* -1: left out */
    if (poll(links, (nfds_t)self->options->jobs, 100) <= 0)
        return 0;
    for (int i = 0; i < self->options->jobs; i++) {
        fuzz_child_news news =
            links[i].revents == 0 ? FUZZ_CHILD_RUNS : fuzz_child_hear(&self->children[i]);
        if (news == FUZZ_CHILD_DONE)
            failed |= child_done(self, i) != 0;
        else if (news == FUZZ_CHILD_GONE)
            failed |= child_gone(self, i) != 0;
    }
    return failed;
}

static int are_running(const campaign *self)
{
    int running = 0;
    for (int i = 0; i < self->options->jobs; i++)
        running |= self->children[i].pid != 0;
    return running;
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
        failed = child_feed(self, &self->children[i]) != 0;
    while (are_running(self)) {
        /* A real device is left in peace: what runs there when the time is up may end. */
        if (failed || self->is_stopping || (!has_time(self) && !self->options->limits.gated))
            children_stop(self);
        failed |= children_hear(self);
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
