/* SPDX-License-Identifier: Apache-2.0 */
/* A trace in the time that it was recorded in: see pace.h. */
#include "pace.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/plural.h"
#include "clock.h"

/* Longer than that no trace is played: a hundred years, so that nanoseconds fit into 64 bits. */
static const uint64_t longest_us = UINT64_C(100) * 366 * 24 * 3600 * 1000000;
static const uint64_t second_ns = UINT64_C(1000000000);
/* A pause that is worth a word. */
static const uint64_t pause_said_us = UINT64_C(60) * 1000000;

uint64_t pace_pass_us(const trace *source)
{
    uint64_t us = source->us_last - source->us_first;
    return us + us / source->ops_count; /* the next pass comes after one operation's time more */
}

int pace_check(const trace *source, long passes, uint64_t speed, char *error, size_t error_bytes)
{
    uint64_t pass_us = source->us_last - source->us_first;
    if (pass_us == 0) {
        snprintf(error, error_bytes,
                 "%s has no times to be paced by: each of its operations is at %" PRIu64
                 " us. Replay it without --paced, or record the times",
                 source->name, source->us_first);
        return -1;
    }
    if (pass_us > longest_us || pace_pass_us(source) / speed > longest_us / (uint64_t)passes) {
        snprintf(error, error_bytes,
                 "%s cannot be paced: a pass of it lasts %" PRIu64 " us, from %" PRIu64
                 " to %" PRIu64
                 ", and all passes together more than a hundred years. Look at its times, or raise "
                 "--speed",
                 source->name, pass_us, source->us_first, source->us_last);
        return -1;
    }
    return 0;
}

const char *pace_note(const trace *source, uint64_t speed, int waits, char *text, size_t bytes)
{
    int length = 0;
    text[0] = '\0';
    if (source->back_count > 0)
        length = snprintf(text, bytes,
                          "%s: the time goes back %" PRIu64 " time%s, first in line %" PRIu64
                          ", at most by %" PRIu64 " us; the clock stood still there.",
                          source->name, source->back_count, tnri_plural(source->back_count),
                          source->back_line, source->back_us_most);
    if (length < 0 || (size_t)length >= bytes || source->pause_us_most < pause_said_us)
        return text;
    int is_cut = waits && source->pause_us_most / speed > (uint64_t)PACE_PAUSE_S * 1000000;
    snprintf(text + length, bytes - (size_t)length,
             "%s%s: nothing happens for %.0f s before line %" PRIu64 "; ", length > 0 ? "\n" : "",
             source->name, (double)source->pause_us_most / 1e6, source->pause_line);
    length = (int)strlen(text);
    if (is_cut)
        snprintf(text + length, bytes - (size_t)length, "%d s of a pause are waited for.",
                 PACE_PAUSE_S);
    else
        snprintf(text + length, bytes - (size_t)length, "the clock went on at once.");
    return text;
}

void pace_start(pace *clock, const session *active, const trace *source, uint64_t speed)
{
    memset(clock, 0, sizeof(*clock));
    clock->source = source;
    clock->speed = speed;
    uint64_t (*played)(void) = NULL;
    void *play = active->simulated ? dlsym(active->gpu.library, "simcuda_time_set") : NULL;
    void *read = active->simulated ? dlsym(active->gpu.library, "simcuda_time_ns") : NULL;
    if (play && read) {
        memcpy(&clock->play, &play, sizeof(play));
        memcpy(&played, &read, sizeof(read));
    }
    clock->began_ns = clock->play ? played() : clock_now_ns();
}

/* Waits for a moment of the clock, but not for long pauses: what is left out of one moves all that
 * comes after it. */
static void pace_wait(pace *clock, uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns() + clock->cut_ns;
    uint64_t longest_ns = PACE_PAUSE_S * second_ns;
    if (now_ns >= until_ns)
        return;
    uint64_t wait_ns = until_ns - now_ns;
    if (wait_ns > longest_ns) {
        clock->cut_ns += wait_ns - longest_ns;
        wait_ns = longest_ns;
    }
    struct timespec left = {(time_t)(wait_ns / second_ns), (long)(wait_ns % second_ns)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void pace_to(pace *clock, long pass, uint64_t us)
{
    uint64_t in_pass_us = us > clock->source->us_first ? us - clock->source->us_first : 0;
    uint64_t at_us = pace_pass_us(clock->source) * (uint64_t)pass + in_pass_us;
    if (at_us <= clock->at_us)
        return;
    clock->at_us = at_us;
    /* Divided first where the product might not fit: a nanosecond more or less is nothing. */
    uint64_t at_ns =
        clock->began_ns + at_us / clock->speed * 1000 + at_us % clock->speed * 1000 / clock->speed;
    if (clock->play)
        clock->play(at_ns);
    else
        pace_wait(clock, at_ns);
}
