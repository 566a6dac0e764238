/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher: a thread that opens gates for calls that wait, so that nothing hangs. If something
 * hangs nevertheless, it ends the process. It touches host memory only. It never calls the library
 * or the driver, because the waiting call may hold their locks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gate_state.h"

#define MS UINT64_C(1000000)

/* A call that need not wait is given a while: the driver's own calls take milliseconds when they
 * map memory. One that does wait is helped at once, gate by gate, with time in between for the work
 * behind each. */
#define GRACE_NS (10 * MS)
#define GRACE_KNOWN_NS (MS / 20)
#define BETWEEN_NS (MS / 10)
#define IDLE_NS (2 * MS)

/* A planted error is certain only as long as its gates stay closed. */
#define GRACE_PLANTED_NS (500 * MS)

void gate_call_begin(const char *what, int is_known_to_wait, int line)
{
    gates *self = &gate_state;
    pthread_mutex_lock(&self->lock);
    self->call_since_ns = gate_now_ns();
    self->call_grace_ns = is_known_to_wait           ? GRACE_KNOWN_NS
                          : self->device->is_certain ? GRACE_PLANTED_NS
                                                     : GRACE_NS;
    self->call_line = line;
    snprintf(self->call, sizeof(self->call), "%s", what);
    if (is_known_to_wait)
        pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

void gate_call_end(void)
{
    pthread_mutex_lock(&gate_state.lock);
    gate_state.call_since_ns = 0;
    pthread_mutex_unlock(&gate_state.lock);
}

/* ---- the report ----------------------------------------------------------------------------- */

/* Appends to a text as far as there is room. */
__attribute__((format(printf, 3, 4))) static void text_add(char *text, size_t bytes,
                                                           const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, bytes - length, format, arguments);
    va_end(arguments);
}

/* The name of a line's stream as the program has it. */
static const char *line_name(int line, char *name, size_t bytes)
{
    snprintf(name, bytes, "a stream that is gone");
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (gate_state.line_of[i] == line)
            snprintf(name, bytes, "s%d", i);
    return name;
}

/* Which gates are closed, and which are open with nothing done behind them. */
static void report_write(char *text, size_t bytes)
{
    int all_over = 1;
    for (int i = 0; i < GATE_LINES; i++) {
        const gate_line *line = &gate_state.lines[i];
        uint32_t done = __atomic_load_n(&gate_state.words[i].done, __ATOMIC_ACQUIRE);
        char name[32];
        if (done == line->placed)
            continue;
        all_over = 0;
        text_add(text, bytes,
                 "\n%s: %" PRIu32 " gates, %" PRIu32 " of them closed; the work behind %" PRIu32
                 " is over",
                 line_name(i, name, sizeof(name)), line->placed - line->before,
                 line->placed - line->opened, done - line->before);
    }
    if (all_over)
        text_add(text, bytes, "\nno gate is closed, and the work behind all of them is over");
}

/* Under the mutex, which nobody gets any more. The verdict lies in shared memory. */
_Noreturn static void give_up(uint64_t elapsed_ns)
{
    gates *self = &gate_state;
    fuzz_result *result = self->run->result;
    result->verdict = FUZZ_VERDICT_LIVENESS;
    result->step = self->run->step;
    snprintf(result->check, sizeof(result->check), "stall");
    snprintf(result->text, sizeof(result->text),
             "\"%s\" has not come back for %.1f s, with every gate opened for it", self->call,
             (double)elapsed_ns / 1e9);
    report_write(result->text, sizeof(result->text));
    _exit(0);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* Under the mutex, which it gives up meanwhile. */
static void pause_for(uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t at = (uint64_t)until.tv_nsec + ns;
    until.tv_sec += (time_t)(at / UINT64_C(1000000000));
    until.tv_nsec = (long)(at % UINT64_C(1000000000));
    (void)pthread_cond_timedwait(&gate_state.changed, &gate_state.lock, &until);
}

static void *watch(void *unused)
{
    gates *self = &gate_state;
    (void)unused;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        uint64_t elapsed = self->call_since_ns == 0 ? 0 : gate_now_ns() - self->call_since_ns;
        if (elapsed == 0 || elapsed < self->call_grace_ns) {
            int is_short = self->call_since_ns != 0 && self->call_grace_ns == GRACE_KNOWN_NS;
            pause_for(is_short ? GRACE_KNOWN_NS : IDLE_NS);
            continue;
        }
        int line = self->call_line;
        if (line < 0 || !gate_line_is_closed(line))
            line = gate_line_draw(&self->watcher_random);
        if (line >= 0) {
            gate_open_next(line);
            self->counts->opened_waiting++;
            pause_for(BETWEEN_NS + self->still_ns);
        } else if (elapsed > self->device->stall_seconds * 1000 * MS) {
            give_up(elapsed);
        } else {
            pause_for(IDLE_NS);
        }
    }
    return NULL;
}

int gate_watch_start(void)
{
    gates *self = &gate_state;
    pthread_condattr_t monotonic;
    int bad = pthread_mutex_init(&self->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0;
    bad = bad || pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
          pthread_cond_init(&self->changed, &monotonic) != 0;
    pthread_t thread;
    bad = bad || pthread_create(&thread, NULL, watch, NULL) != 0;
    return bad || pthread_detach(thread) != 0 ? -1 : 0;
}
