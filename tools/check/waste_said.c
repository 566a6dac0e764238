/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run --waste` says when the program ends: a line for each place whose memory lay
 * unused, the most first, with what to do about it; and the same for machines.
 *
 *   TENURE_PRELOAD_WASTE  the shortest idle time that counts, in ms; not there: --waste is off
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "base/plural.h"
#include "check/ending.h"
#include "check/findings.h"
#include "check/kept.h"
#include "check/streams.h"
#include "check/waste.h"
#include "driver.h"
#include "service.h"

/* Of a place: less memory than this, or less of its time, is not worth a change. */
enum { BYTES_MIN = 1 << 20, SHOWN_MAX = 20 };
static const double SHARE_MIN = 0.1, NS = 1e9;

static const char *const keys[CHECK_IDLE_COUNT] = {"never_used", "before_first_use", "between_uses",
                                                   "after_last_use"};
static const char *const whens[CHECK_IDLE_COUNT] = {"never used", "before the first use",
                                                    "between uses", "after the last use"};
static const char *const advice[CHECK_IDLE_COUNT] = {"do without this", "allocate this later",
                                                     "park this", "free this earlier"};

static uint64_t launches, launches_unread; /* at the end */

static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static int is_worth(const check_wasted *one)
{
    return one->bytes_peak >= BYTES_MIN && share_of(check_waste_idle(one), one->held) >= SHARE_MIN;
}

/* When most of it lay unused. */
static int main_of(const check_wasted *one)
{
    int most = 0;
    for (int i = 1; i < CHECK_IDLE_COUNT; i++)
        if (one->idle[i] > one->idle[most])
            most = i;
    return most;
}

/* What is worth a change first, the most idle first. */
static int compare(const void *first, const void *second)
{
    const check_wasted *one = first, *other = second;
    double mine = check_waste_idle(one), its = check_waste_idle(other);
    if (is_worth(one) != is_worth(other))
        return is_worth(other) - is_worth(one);
    return mine < its ? 1 : mine > its ? -1 : 0;
}

static check_side side_of(const check_wasted *one)
{
    return (check_side){.touch = {.place = one->place}, .is = "allocated"};
}

/* ---- for people ------------------------------------------------------------------------------ */

static void wasted_text(check_text *to, const check_wasted *one)
{
    int most = main_of(one), others = 0;
    check_side made = side_of(one);
    check_text_add(to, "tenure: waste: %s: %s, %s for %.0f %% of the time", advice[most],
                   TNRI_BYTES(one->bytes_peak), most == CHECK_IDLE_NEVER_USED ? "unused" : "idle",
                   100 * share_of(check_waste_idle(one), one->held));
    check_text_add(to, "\n  ");
    for (int i = 0; i < CHECK_IDLE_COUNT; i++)
        if (one->idle[i] > 0)
            check_text_add(to, "%s%.0f %% %s", others++ > 0 ? ", " : "",
                           100 * share_of(one->idle[i], one->held), whens[i]);
    check_text_add(to, "; %" PRIu64 " block%s, %s for a second\n", one->blocks,
                   tnri_plural(one->blocks), TNRI_BYTES((uint64_t)(check_waste_idle(one) / NS)));
    check_side_text(to, &made);
}

/* ---- for machines ---------------------------------------------------------------------------- */

static void idle_json(check_text *to, const double idle[CHECK_IDLE_COUNT])
{
    for (int i = 0; i < CHECK_IDLE_COUNT; i++)
        check_text_add(to, ", \"%s\": %.0f", keys[i], idle[i] / NS);
}

static void wasted_json(check_text *to, const check_wasted *one)
{
    check_side made = side_of(one);
    check_text_add(to,
                   "{\"waste\": \"%s\", \"pid\": %ld, \"worth\": %s, \"blocks\": %" PRIu64
                   ", \"bytes\": %zu, \"idle_share\": %.4f, \"byte_seconds\": %.0f",
                   keys[main_of(one)], (long)getpid(), is_worth(one) ? "true" : "false",
                   one->blocks, one->bytes_peak, share_of(check_waste_idle(one), one->held),
                   one->held / NS);
    idle_json(to, one->idle);
    check_side_json(to, "allocated", &made);
    check_text_add(to, "}\n");
}

static void sum_json(check_text *to, const check_wasted *whole, size_t worth)
{
    check_text_add(
        to,
        "{\"waste\": \"summary\", \"pid\": %ld, \"worth\": %zu, \"blocks\": %" PRIu64
        ", \"idle_share\": %.4f, \"shortest_ms\": %.0f, \"launches\": %" PRIu64
        ", \"launches_unread\": %" PRIu64 ", \"byte_seconds\": %.0f",
        (long)getpid(), worth, whole->blocks, share_of(check_waste_idle(whole), whole->held),
        (double)check_waste_shortest_ns() / 1e6, launches, launches_unread, whole->held / NS);
    idle_json(to, whole->idle);
    check_text_add(to, "}\n");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void sum_text(check_text *to, const check_wasted *whole, size_t worth)
{
    if (worth > SHOWN_MAX)
        check_text_add(to, "tenure: waste: %zu places more: --findings has them\n",
                       worth - SHOWN_MAX);
    check_text_add(to, "tenure: waste: process %ld: ", (long)getpid());
    if (worth == 0)
        check_text_add(to,
                       "nothing was wasted: no place of the program left 1 MiB or more idle "
                       "for %.0f ms at a time and a tenth of its time",
                       (double)check_waste_shortest_ns() / 1e6);
    else
        check_text_add(to,
                       "%zu place%s of the program left memory idle; of all memory, weighted "
                       "by time, %.0f %% was",
                       worth, tnri_plural(worth),
                       100 * share_of(check_waste_idle(whole), whole->held));
    check_text_add(to,
                   "; %" PRIu64 " block%s, %" PRIu64 " launches, %" PRIu64 " of them not read\n",
                   whole->blocks, tnri_plural(whole->blocks), launches, launches_unread);
}

static void add(check_wasted *to, const check_wasted *one)
{
    to->blocks += one->blocks;
    to->held += one->held;
    for (int i = 0; i < CHECK_IDLE_COUNT; i++)
        to->idle[i] += one->idle[i];
}

static void waste_say(check_wasted *all, size_t count)
{
    enum { ROOM = 1 << 16 };
    check_text said = {malloc(ROOM), 0, ROOM, check_said_has_places()};
    check_wasted whole = {.blocks = 0};
    size_t worth = 0;
    qsort(all, count, sizeof(*all), compare);
    for (size_t i = 0; i < count && said.string != NULL; i++) {
        add(&whole, &all[i]);
        worth += is_worth(&all[i]) != 0;
        said.length = 0;
        if (is_worth(&all[i]) && worth <= SHOWN_MAX) {
            wasted_text(&said, &all[i]);
            check_said_write(&said);
        }
        said.length = 0;
        check_text plain = said;
        plain.has_places = 0;
        if (check_waste_idle(&all[i]) > 0) {
            wasted_json(&plain, &all[i]);
            check_json_write(&plain);
        }
    }
    if (said.string == NULL)
        return;
    said.length = 0;
    sum_text(&said, &whole, worth);
    check_said_write(&said);
    check_text plain = {said.string, 0, ROOM, 0};
    sum_json(&plain, &whole, worth);
    check_json_write(&plain);
    free(said.string);
}

void check_waste_end(void)
{
    size_t count = 0;
    if (!check_does(CHECK_WASTE) || service_is_forked() || !atomic_load(&driver_is_found) ||
        !check_enter())
        return;
    check_wasted *all = check_waste_sums(&count);
    check_counts_get(&launches, &launches_unread);
    check_leave();
    if (all != NULL)
        waste_say(all, count);
    free(all);
}
