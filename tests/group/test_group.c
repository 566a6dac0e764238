/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share a device's memory. Idle memory goes to the process that asks, floors and
 * ceilings bind, and a stopped or dead process delays nobody for long.
 *
 * Lines of the library changed to see it fail:
 *   ladder_ascend without ladder_ask_group: idle_memory_is_handed_over and seven more
 *   member_give with floor 0: floors_bind
 *   tnri_ask_take that refuses nobody: floors_bind; with_floors of test_model.c
 *   silence that marks nobody: who_is_stopped_delays_once
 *   tnri_seat_lives 1 for whoever sat there: who_is_killed_is_forgotten
 *   tnri_ask_taken without ask: growth_is_matched waits for ever
 *   member_give that forgets what is on its way: growth_is_matched
 *   tnri_reclaim_for_others without the pass that waits: idle_memory_is_handed_over
 *   the same without what was refused before: the_driver_refuses
 *   tnri_device_most without the ceiling: ceilings_bind; with_floors of test_model.c
 *   board_check without modes, board_map without the magic number: files_that_are_none
 *   tnri_ask_wait whose first call does not always say that there may be more: who_gives of
 *     test_steps.c
 *   tnri_ask_wait that returns what was given to this process alone, or waive that keeps what came
 *     beyond an ask: four_members and with_floors of test_model.c, in some thousand operations
 *   group_device that does nothing where it PAUSES: growth_is_matched, now and then
 *   seat_clear without coming_bytes: who_dies_growing_leaves_nothing
 *   member_give that does not count what it gives in `seen`: old_asks_stay_in_vain
 *   others_add without reserved: limits_bind_all, limits_keep_floors
 *   limit_check without lack: limits_keep_floors
 * With members that wait 600 ms before each look, as on a slow machine, old_asks_stay_in_vain
 * fails without its wait for the silent one, and passes with it.
 */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "await.h"

enum { DEVICE_MIB = 64 };

static int begin(void **state)
{
    (void)state;
    peers_begin(DEVICE_MIB);
    return 0;
}

/* What is idle in one is had by the other, at once, though the device is full. */
static void idle_memory_is_handed_over(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    assert_int_equal(peer_reserved(&one), 60 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 40 * MIB);
    assert_true(peer_reserved(&one) <= 24 * MIB);
    peer_awaits(&one, 0); /* the rest was asked for by growing */
    tnr_stats gave = peer_must(&one, PEER_STATS, 0, 0).stats;
    tnr_stats took = peer_must(&two, PEER_STATS, 0, 0).stats;
    assert_int_equal(gave.group_given_bytes, 60 * MIB);
    assert_int_equal(gave.group_given_bytes, took.group_taken_bytes);
    assert_int_equal(took.group_asks, 1);
    /* And back. */
    peer_must(&two, PEER_FREE, 0, 0);
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    assert_true(peer_end(&one) && peer_end(&two));
    assert_true(peers_left_nothing(DEVICE_MIB));
}

/* The one asks for what the other has live: it waits for nobody, since all have answered. */
static void live_memory_stays(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_wait_ms:600000"), two = peer_start("group:g");
    peer_must(&two, PEER_MALLOC, 0, 40 * MIB);
    peer_must(&two, PEER_MALLOC, 1, 8 * MIB);
    peer_must(&two, PEER_FREE, 1, 0);
    peer_must_fail(&one, PEER_MALLOC, 0, 30 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    peer_must(&one, PEER_MALLOC, 0, 24 * MIB);
    peer_must(&two, PEER_FREE, 0, 0);
    assert_true(peer_end(&one) && peer_end(&two));
}

/* Who grows while the device has room is not kept waiting; what is idle elsewhere goes all the
 * same, so that both together have little more than is live. */
static void growth_is_matched(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 24 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must(&two, PEER_MALLOC, 0, 16 * MIB);
    peer_awaits(&one, 8 * MIB);
    peer_must(&two, PEER_MALLOC, 1, 8 * MIB);
    peer_awaits(&one, 0);
    tnr_stats took = peer_must(&two, PEER_STATS, 0, 0).stats;
    assert_int_equal(took.group_asks, 0); /* it was never short */
    assert_int_equal(took.group_taken_bytes, 24 * MIB);
    assert_true(peer_end(&one) && peer_end(&two));
}

/* What was asked for while nobody had anything idle is not wanted for ever. */
static void old_asks_are_forgotten(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&two, PEER_MALLOC, 0, 2 * MIB);
    peer_must(&one, PEER_MALLOC, 0, 20 * MIB); /* two has nothing that is idle */
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must(&two, PEER_MALLOC, 1, 2 * MIB);
    peer_awaits(&one, 18 * MIB);
    peer_must(&one, PEER_MALLOC, 1, 18 * MIB);
    peer_must(&one, PEER_FREE, 1, 0);
    peer_must(&two, PEER_MALLOC, 2, 2 * MIB);
    peer_awaits(&one, 16 * MIB);
    assert_int_equal(peer_reserved(&one), 16 * MIB);
    assert_true(peer_end(&one) && peer_end(&two));
}

static void ceilings_bind(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_ceiling_mb:16");
    peer_must(&one, PEER_MALLOC, 0, 12 * MIB);
    peer_must_fail(&one, PEER_MALLOC, 1, 20 * MIB, TNR_ERR_LIMIT, "of the group \"g\" (set by");
    peer_must_fail(&one, PEER_MALLOC, 1, 8 * MIB, TNR_ERR_LIMIT, "group_ceiling_mb");
    peer_must(&one, PEER_MALLOC, 1, 4 * MIB);
    assert_true(peer_end(&one));
}

/* All members together have no more than the least limit that one of them names. Others' idle
 * memory makes room under it, and their live memory does not. */
static void limits_bind_all(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_limit_mb:32"),
         two = peer_start("group:g,group_limit_mb:48");
    peer_must(&one, PEER_MALLOC, 0, 20 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 12 * MIB);
    peer_must_fail(&two, PEER_MALLOC, 1, 4 * MIB, TNR_ERR_OUT_OF_MEMORY, "group_limit_mb");
    assert_int_equal(peer_reserved(&one) + peer_reserved(&two), 32 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must(&two, PEER_MALLOC, 1, 14 * MIB); /* one gives */
    assert_true(peer_reserved(&one) + peer_reserved(&two) <= 32 * MIB);
    peer_must_fail(&one, PEER_MALLOC, 0, 8 * MIB, TNR_ERR_OUT_OF_MEMORY, "group_limit_mb");
    peer_must_fail(&one, PEER_MALLOC, 0, 40 * MIB, TNR_ERR_LIMIT, "group_limit_mb");
    assert_true(peer_end(&two));
    peer_must(&one, PEER_MALLOC, 0, 32 * MIB); /* who has ended counts no more */
    assert_true(peer_end(&one));
}

/* What is kept for the floor of another is kept of the limit, too; the member itself has it. */
static void limits_keep_floors(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_limit_mb:32,group_floor_mb:24"),
         two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 2 * MIB);
    peer_must_fail(&two, PEER_MALLOC, 0, 10 * MIB, TNR_ERR_OUT_OF_MEMORY, "group_limit_mb");
    peer_must(&two, PEER_MALLOC, 0, 8 * MIB);
    peer_must(&one, PEER_MALLOC, 1, 22 * MIB);
    peer_must_fail(&one, PEER_MALLOC, 2, 2 * MIB, TNR_ERR_OUT_OF_MEMORY, "group_limit_mb");
    assert_true(peer_end(&one) && peer_end(&two));
}

/* What a member lacks up to its floor is left to it, and of what is idle it keeps as much. */
static void floors_bind(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_floor_mb:24"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 2 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 40 * MIB);
    peer_must_fail(&two, PEER_MALLOC, 1, 2 * MIB, TNR_ERR_OUT_OF_MEMORY,
                   "of which group \"g\" keeps 23068672 for the floors");
    peer_must(&one, PEER_MALLOC, 1, 22 * MIB);
    peer_must(&two, PEER_FREE, 0, 0);
    peer_must(&one, PEER_MALLOC, 2, 16 * MIB);
    for (uint64_t slot = 0; slot < 3; slot++)
        peer_must(&one, PEER_FREE, slot, 0);
    peer_must(&two, PEER_MALLOC, 0, 40 * MIB);
    assert_int_equal(peer_reserved(&one), 24 * MIB);
    peer_must_fail(&two, PEER_MALLOC, 1, 2 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    peer_kill(&one); /* and its floor with it */
    peer_must(&two, PEER_MALLOC, 1, 24 * MIB);
    assert_true(peer_end(&two));
}

/* Memory that queued work may still use is waited for by who gives it. */
static void work_is_waited_for(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&one, PEER_WORK, 0, 0);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must(&two, PEER_MALLOC, 0, 60 * MIB);
    assert_true(peer_end(&one) && peer_end(&two));
}

/* What a silent member has given is there before it has said that it answered. So this waits; the
 * test's deadline ends it. */
static void silence_ends(const peer *seen_by)
{
    await_true(strstr(peer_must(seen_by, PEER_STATUS, 0, 0).text, "\"silent\":true") == NULL);
}

/* One that is stopped delays another once, for as long as was said; when it goes on, it gives. */
static void who_is_stopped_delays_once(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g,group_wait_ms:200");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_stop(&one);
    assert_true(
        peer_must_fail(&two, PEER_MALLOC, 0, 20 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory").ns >=
        200000000);
    assert_non_null(strstr(peer_must(&two, PEER_STATUS, 0, 0).text, "\"silent\":true"));
    peer_must(&two, PEER_WAIT_MS, 600000, 0); /* the test would not end in time */
    peer_must_fail(&two, PEER_MALLOC, 0, 20 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    peer_go_on(&one);
    peer_awaits(&one, 24 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 40 * MIB);
    silence_ends(&two);
    assert_true(peer_end(&one) && peer_end(&two));
}

/* A process that is killed leaves its memory to the others, and its seat; a child that it has
 * forked does not keep them. */
static void who_is_killed_is_forgotten(void **state)
{
    (void)state;
    peer one = peer_start("group:g,group_floor_mb:10"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 2 * MIB);
    pid_t child = (pid_t)peer_must(&one, PEER_FORK, 0, 0).value;
    peer_kill(&one);
    const char *said = peer_must(&two, PEER_STATUS, 0, 0).text;
    assert_null(strstr(said, "\"self\":false"));
    assert_non_null(strstr(said, "\"self\":true"));
    peer_must(&two, PEER_MALLOC, 1, 60 * MIB);
    assert_int_equal(kill(child, SIGKILL), 0);
    peer three = peer_start("group:g");
    peer_must(&two, PEER_FREE, 1, 0);
    peer_must(&three, PEER_MALLOC, 0, 60 * MIB);
    assert_true(peer_end(&two) && peer_end(&three));
    assert_true(peers_left_nothing(DEVICE_MIB));
}

/* A process dies at any step of its growing. What it was about to take is not what the next process
 * in its seat is about to take, which others leave to it. */
static void who_dies_growing_leaves_nothing(void **state)
{
    (void)state;
    static peer_answer said;
    int dies = 1;
    peer floor = peer_start("group:g,group_floor_mb:4"), grows = peer_start("group:g");
    peer_must(&floor, PEER_MALLOC, 0, 2 * MIB);
    peer_must(&grows, PEER_MALLOC, 0, 2 * MIB);
    for (uint64_t step = 1; dies; step++) {
        peer victim = peer_start("group:g");
        peer_must(&victim, PEER_MALLOC, 0, 2 * MIB);
        peer_must(&victim, PEER_KILL_AT, step, 0);
        dies = !peer_ask(&victim, PEER_MALLOC, 1, 40 * MIB, &said);
        peer_kill(&victim);
        peer next = peer_start("group:g");
        peer_must(&next, PEER_MALLOC, 0, 2 * MIB);
        peer_must(&grows, PEER_MALLOC, 1, 48 * MIB);
        peer_must(&grows, PEER_FREE, 1, 0);
        peer_must(&grows, PEER_TRIM, 0, 0);
        assert_true(peer_end(&next));
        assert_true(step > 1 || dies);
    }
    assert_true(peer_end(&floor) && peer_end(&grows));
}

/* How many others one takes for silent. */
static int silent_count(const peer *seen_by)
{
    int count = 0;
    const char *at = peer_must(seen_by, PEER_STATUS, 0, 0).text;
    while ((at = strstr(at, "\"silent\":true")) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* One that is stopped has not answered, so what was asked for in vain stays asked for. Who has
 * looked in vain gives what is asked for since, and no more. The device is full when it looks, so
 * that each ask is waited for. */
static void old_asks_stay_in_vain(void **state)
{
    (void)state;
    peer one = peer_start("group:g,chunk_max_mb:2"), stopped = peer_start("group:g");
    peer two = peer_start("group:g,group_wait_ms:400,chunk_max_mb:2");
    peer_must(&stopped, PEER_MALLOC, 0, 2 * MIB);
    peer_must(&one, PEER_MALLOC, 0, 30 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 12 * MIB);
    peer_must(&two, PEER_MALLOC, 1, 20 * MIB);
    peer_stop(&stopped);
    peer_must_fail(&two, PEER_MALLOC, 2, 30 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    peer_must_fail(&two, PEER_MALLOC, 2, 30 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    /* On a slow machine the other one may be late, too: it has looked once it is not silent. */
    await_true(silent_count(&two) <= 1);
    peer_must(&two, PEER_WAIT_MS, 600000, 0); /* what comes now is given, in its own time */
    peer_must(&two, PEER_FREE, 1, 0);
    peer_must(&two, PEER_TRIM, 0, 0);
    peer_must(&one, PEER_FREE, 0, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        peer_must(&two, PEER_MALLOC, i, 4 * MIB);
        peer_awaits(&one, (30 - 4 * i) * MIB);
    }
    assert_int_equal(peer_reserved(&one), 18 * MIB);
    peer_go_on(&stopped);
    assert_true(peer_end(&one) && peer_end(&two) && peer_end(&stopped));
}

/* What sleeps has no memory; to wake, it is given what is idle elsewhere. */
static void a_wake_asks_too(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 40 * MIB);
    peer_must(&one, PEER_SLEEP, 0, 0);
    peer_must(&two, PEER_MALLOC, 0, 60 * MIB);
    peer_must_fail(&one, PEER_WAKE, 0, 0, TNR_ERR_OUT_OF_MEMORY, "");
    peer_must(&two, PEER_FREE, 0, 0);
    peer_must(&one, PEER_WAKE, 0, 0);
    peer_must(&one, PEER_FREE, 0, 0);
    assert_true(peer_end(&one) && peer_end(&two));
}

/* Groups of other names, and processes in none, have nothing to do with each other. */
static void groups_are_apart(void **state)
{
    (void)state;
    peer one = peer_start("group:a"), two = peer_start("group:b"), three = peer_start("");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must_fail(&two, PEER_MALLOC, 0, 20 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    peer_must_fail(&three, PEER_MALLOC, 0, 20 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    assert_non_null(strstr(peer_must(&three, PEER_STATUS, 0, 0).text, "\"group\":null"));
    assert_true(peer_end(&one) && peer_end(&two) && peer_end(&three));
}

static void status_tells(void **state)
{
    (void)state;
    char wanted[96];
    peer one = peer_start("group:g,group_floor_mb:4,group_ceiling_mb:32,group_limit_mb:48"),
         two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 6 * MIB);
    peer_must(&two, PEER_MALLOC, 0, 2 * MIB);
    const char *said = peer_must(&two, PEER_STATUS, 0, 0).text;
    snprintf(wanted, sizeof(wanted), "{\"process\":%d,\"program\":\"exe\",\"self\":false",
             (int)one.process);
    assert_non_null(strstr(said, "\"group\":\"g\",\"group_given_bytes\":0,\"group_taken_bytes\":0,"
                                 "\"group_asks\":0,\"group_yields\":0,"
                                 "\"group_yielded_bytes\":0,\"members\":["));
    assert_non_null(strstr(said, wanted));
    assert_non_null(strstr(said, "\"reserved_bytes\":6291456,\"floor_bytes\":4194304,"
                                 "\"ceiling_bytes\":33554432,\"given_bytes\":0"));
    assert_non_null(strstr(said, "\"floor_bytes\":0,\"ceiling_bytes\":null"));
    assert_non_null(strstr(said, "\"group_limit_bytes\":50331648"));
    assert_true(peer_end(&one) && peer_end(&two));
}

static void snapshots_tell(void **state)
{
    (void)state;
    char path[128];
    static char text[1 << 20];
    peer one = peer_start("group:g"), two = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, 60 * MIB);
    peer_must(&one, PEER_FREE, 0, 0);
    peer_must(&two, PEER_MALLOC, 0, 60 * MIB);
    peer_awaits(&one, 0);
    peer_must(&one, PEER_SNAPSHOT, 0, 0);
    snprintf(path, sizeof(path), "%s/device.json", peers_folder());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(text, "\"group\":{\"name\":\"g\",\"given_bytes\":62914560,"
                                 "\"taken_bytes\":0,\"asks\":0},"));
    assert_true(peer_end(&one) && peer_end(&two));
}

/* A shutdown leaves the group, and the next start joins it again. */
static void leaving_and_joining(void **state)
{
    (void)state;
    peer one = peer_start("group:g"), two = peer_start("group:g,group_floor_mb:8");
    for (int i = 0; i < 20; i++) {
        peer_must(&one, PEER_MALLOC, 0, 56 * MIB);
        peer_must(&one, PEER_FREE, 0, 0);
        peer_must(&two, PEER_MALLOC, 0, 60 * MIB);
        peer_must(&two, PEER_SHUTDOWN, 0, 0);
        assert_null(strstr(peer_must(&one, PEER_STATUS, 0, 0).text, "\"self\":false"));
    }
    assert_true(peer_end(&one) && peer_end(&two));
    assert_true(peers_left_nothing(DEVICE_MIB));
}

/* The driver refuses any call of who gives, and of who asks: nothing is lost, and once it does as
 * it should the memory can be had. */
static void the_driver_refuses(void **state)
{
    (void)state;
    static peer_answer said;
    uint64_t hits = 0;
    peer one = peer_start("group:g"), two = peer_start("group:g");
    for (uint64_t call = 0; peer_calls[call] != NULL; call++)
        for (uint64_t nth = 1; nth <= 3; nth++) {
            peer_must(&one, PEER_MALLOC, 0, 40 * MIB);
            peer_must(&one, PEER_FREE, 0, 0);
            peer_must(&one, PEER_REFUSE, call, nth);
            peer_must(&two, PEER_REFUSE, call, nth);
            assert_true(peer_ask(&two, PEER_MALLOC, 0, 50 * MIB, &said));
            hits += peer_must(&one, PEER_REFUSE, 0, 0).value;
            hits += peer_must(&two, PEER_REFUSE, 0, 0).value;
            if (said.status == TNR_OK)
                peer_must(&two, PEER_FREE, 0, 0);
            peer_must(&one, PEER_STATS, 0, 0);
            peer_must(&two, PEER_STATS, 0, 0);
            peer_must(&two, PEER_MALLOC, 0, 60 * MIB);
            peer_must(&two, PEER_FREE, 0, 0);
        }
    assert_true(hits > 8);
    assert_true(peer_end(&one) && peer_end(&two));
    assert_true(peers_left_nothing(DEVICE_MIB));
}

/* ---- bad files ------------------------------------------------------------------------------ */

static void board_path(char *path, size_t bytes)
{
    peer one = peer_start("group:g");
    peer_must(&one, PEER_MALLOC, 0, MIB);
    assert_true(peer_end(&one));
    snprintf(path, bytes, "%s/g-73696d63756461000000000000000000.group", peers_folder());
    assert_int_equal(access(path, R_OK | W_OK), 0);
}

static void refused(const char *text)
{
    peer one = peer_start("group:g");
    peer_must_fail(&one, PEER_MALLOC, 0, MIB, TNR_ERR_FILE, text);
    assert_true(peer_end(&one));
}

static void files_that_are_none(void **state)
{
    (void)state;
    char path[128];
    board_path(path, sizeof(path));
    assert_int_equal(chmod(path, 0640), 0);
    refused("not a file of this user's alone");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 100), 0);
    refused("not a group of this version");
    assert_int_equal(truncate(path, 0), 0);
    board_path(path, sizeof(path)); /* empty: it is made anew */
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, "else", 4, 0), 4);
    assert_int_equal(close(file), 0);
    refused("not a group of this version");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    refused("cannot be opened");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refused("cannot be opened");
    assert_int_equal(rmdir(path), 0);
}

/* All numbers in it are nonsense: nothing but the others' view suffers. */
static void nonsense_is_survived(void **state)
{
    (void)state;
    char path[128];
    unsigned char bytes[512];
    board_path(path, sizeof(path));
    peer one = peer_start("group:g,group_wait_ms:50");
    peer_must(&one, PEER_MALLOC, 0, 40 * MIB);
    int file = open(path, O_RDWR);
    memset(bytes, 0xa5, sizeof(bytes));
    for (off_t at = 1024; at < 8192; at += (off_t)sizeof(bytes))
        assert_int_equal(pwrite(file, bytes, sizeof(bytes), at), (ssize_t)sizeof(bytes));
    assert_int_equal(close(file), 0);
    peer_must(&one, PEER_MALLOC, 1, 20 * MIB);
    peer_must_fail(&one, PEER_MALLOC, 2, 20 * MIB, TNR_ERR_OUT_OF_MEMORY, "memory");
    peer_must(&one, PEER_STATUS, 0, 0);
    assert_true(peer_end(&one));
}

static void all_seats_are_taken(void **state)
{
    (void)state;
    char path[128];
    board_path(path, sizeof(path));
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 64};
    assert_int_equal(fcntl(file, F_SETLK, &lock), 0);
    peer one = peer_start("group:g");
    peer_must_fail(&one, PEER_MALLOC, 0, MIB, TNR_ERR_BUSY, "all 64 places");
    assert_int_equal(close(file), 0);
    peer_must(&one, PEER_MALLOC, 0, MIB);
    assert_true(peer_end(&one));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, peers_end)
    const struct CMUnitTest tests[] = {
        TEST(idle_memory_is_handed_over),
        TEST(live_memory_stays),
        TEST(growth_is_matched),
        TEST(old_asks_are_forgotten),
        TEST(ceilings_bind),
        TEST(limits_bind_all),
        TEST(limits_keep_floors),
        TEST(floors_bind),
        TEST(work_is_waited_for),
        TEST(who_is_stopped_delays_once),
        TEST(who_is_killed_is_forgotten),
        TEST(who_dies_growing_leaves_nothing),
        TEST(old_asks_stay_in_vain),
        TEST(a_wake_asks_too),
        TEST(groups_are_apart),
        TEST(status_tells),
        TEST(snapshots_tell),
        TEST(the_driver_refuses),
        TEST(leaving_and_joining),
        TEST(files_that_are_none),
        TEST(nonsense_is_survived),
        TEST(all_seats_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
