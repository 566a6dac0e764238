/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that is killed, or stopped, at each step of what it does: joining, growing, asking,
 * giving, leaving. The other goes on, is not kept waiting for longer than was said, and in the end
 * has the whole device.
 *
 *   test_group_steps STRIDE      every how manieth step
 *
 * Lines changed in the library to see it fail: in the head of test_group.c.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Who may find a stopped one waits shortly for it. Nobody else's wait has an end: it would be a
 * measure of the machine's speed. */
enum { DEVICE_MIB = 32, MOST_MIB = 28, SHORT_MS = 20, LONG_MS = 600000 };

static uint64_t stride;

/* Waits for the victim's answer, or until it has been killed or stopped. 1: it has answered. */
static int victim_hears(const peer *victim, peer_answer *said)
{
    for (;;) {
        int status;
        struct pollfd wait = {.fd = victim->file, .events = POLLIN};
        if (poll(&wait, 1, 1) > 0)
            return peer_hear(victim, said);
        siginfo_t info = {.si_pid = 0};
        status =
            waitid(P_PID, (id_t)victim->process, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT);
        if (status == 0 && info.si_pid != 0)
            return 0;
    }
}

/* What the survivor cannot have, it is not told after long; and once the victim is gone for good it
 * can. */
static void survivor_has_all(const peer *survivor, peer *victim, int is_stopped)
{
    static peer_answer said;
    assert_true(peer_ask(survivor, PEER_MALLOC, 0, MOST_MIB * MIB, &said));
    if (said.status == TNR_OK)
        peer_must(survivor, PEER_FREE, 0, 0);
    else
        assert_true(is_stopped);
    peer_kill(victim);
    peer_must(survivor, PEER_MALLOC, 0, MOST_MIB * MIB);
    peer_must(survivor, PEER_FREE, 0, 0);
    peer_must(survivor, PEER_STATS, 0, 0);
}

/* The victim has idle memory, which the survivor asks for. 0: the step was not reached. */
static int giver_once(const peer *survivor, peer_order how, uint64_t step)
{
    static peer_answer said;
    peer victim = peer_start("group:g");
    peer_must(survivor, PEER_TRIM, 0, 0);
    peer_must(&victim, PEER_MALLOC, 0, MOST_MIB * MIB);
    peer_must(&victim, PEER_FREE, 0, 0);
    peer_must(&victim, how, step, 0);
    assert_true(peer_ask(survivor, PEER_MALLOC, 0, MOST_MIB * MIB, &said));
    if (said.status == TNR_OK)
        peer_must(survivor, PEER_FREE, 0, 0);
    else
        assert_true(how == PEER_STOP_AT && said.status == TNR_ERR_OUT_OF_MEMORY);
    int is_given = said.status == TNR_OK; /* else it was stopped, or is too slow for SHORT_MS */
    int is_reached = !peer_tell(&victim, PEER_STEPS, 0, 0) || !victim_hears(&victim, &said) ||
                     said.value >= step || !is_given;
    survivor_has_all(survivor, &victim, how == PEER_STOP_AT);
    return is_reached;
}

/* The survivor has, and the victim asks. */
static int asker_once(const peer *survivor, peer_order how, uint64_t step)
{
    static peer_answer said;
    peer victim = peer_start("group:g");
    peer_must(survivor, PEER_MALLOC, 0, MOST_MIB * MIB);
    peer_must(survivor, PEER_FREE, 0, 0);
    peer_must(&victim, how, step, 0); /* it joins with the first allocation */
    assert_true(peer_tell(&victim, PEER_MALLOC, 0, MOST_MIB * MIB));
    int is_reached = !victim_hears(&victim, &said);
    survivor_has_all(survivor, &victim, how == PEER_STOP_AT || !is_reached);
    return is_reached;
}

/* The victim leaves, and comes again. */
static int leaver_once(const peer *survivor, peer_order how, uint64_t step)
{
    static peer_answer said;
    peer victim = peer_start("group:g,group_floor_mb:4");
    peer_must(survivor, PEER_MALLOC, 0, 8 * MIB);
    peer_must(survivor, PEER_FREE, 0, 0);
    peer_must(&victim, PEER_MALLOC, 0, 10 * MIB);
    peer_must(&victim, how, step, 0);
    int is_reached = 0;
    for (int i = 0; i < 2 && !is_reached; i++) {
        is_reached = !peer_tell(&victim, PEER_SHUTDOWN, 0, 0) || !victim_hears(&victim, &said);
        if (!is_reached)
            is_reached =
                !peer_tell(&victim, PEER_MALLOC, 0, 10 * MIB) || !victim_hears(&victim, &said);
    }
    survivor_has_all(survivor, &victim, how == PEER_STOP_AT || !is_reached);
    return is_reached;
}

/* Each step of one of these, until there is none any more. */
static void each_step(int (*once)(const peer *survivor, peer_order how, uint64_t step),
                      const char *what)
{
    peers_begin(DEVICE_MIB);
    peer survivor = peer_start("group:g");
    uint64_t tried = 0;
    for (int k = 0; k < 2; k++) {
        peer_order how = k == 0 ? PEER_KILL_AT : PEER_STOP_AT;
        peer_must(&survivor, PEER_WAIT_MS, k == 0 ? LONG_MS : SHORT_MS, 0);
        for (uint64_t n = 1 + (uint64_t)k * (stride / 2); once(&survivor, how, n); n += stride)
            tried++;
    }
    assert_true(tried >= 4);
    assert_true(peer_end(&survivor));
    assert_true(peers_left_nothing(DEVICE_MIB));
    assert_int_equal(peers_end(NULL), 0);
    print_message("%s: %llu steps\n", what, (unsigned long long)tried);
}

static void who_gives(void **state)
{
    (void)state;
    each_step(giver_once, "giving");
}

static void who_joins_and_asks(void **state)
{
    (void)state;
    each_step(asker_once, "joining and asking");
}

static void who_leaves(void **state)
{
    (void)state;
    each_step(leaver_once, "leaving");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
    stride = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gives),
        cmocka_unit_test(who_joins_and_asks),
        cmocka_unit_test(who_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
