/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four members that all allocate and free blocks of any size at once. Meanwhile a seed has them
 * stopped, continued and killed. A member that lives keeps what it has written, keeps its accounts,
 * and ends in order. Then the whole device is there.
 *
 *   test_group_stress ROUNDS [SEED]
 */
#include "peer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 4, DEVICE_MIB = 40, OPERATIONS = 1500 };

static uint64_t state_random, refused, asks, given;

static uint64_t draw(uint64_t below)
{
    uint64_t z = (state_random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static peer member_begin(void)
{
    char conf[96];
    snprintf(conf, sizeof(conf), "group:g,group_wait_ms:20,group_floor_mb:%u",
             (unsigned)draw(2) * 8);
    peer made = peer_start(conf);
    assert_true(peer_tell(&made, PEER_RANDOM, OPERATIONS, draw(UINT64_MAX)));
    return made;
}

/* Something befalls one of those that have not ended. */
static void befall(peer *members, uint8_t *is_stopped)
{
    unsigned i = (unsigned)draw(MEMBERS);
    if (members[i].process == 0)
        return;
    if (is_stopped[i]) {
        peer_go_on(&members[i]);
        is_stopped[i] = 0;
    } else if (draw(4) == 0) {
        peer_kill(&members[i]);
        members[i] = member_begin();
    } else {
        peer_stop(&members[i]);
        is_stopped[i] = 1;
    }
}

static void member_over(peer *member)
{
    static peer_answer said;
    assert_true(peer_hear(member, &said));
    if (said.status != TNR_OK)
        print_error("a member: %s\n", said.text);
    assert_int_equal(said.status, TNR_OK);
    refused += said.value;
    asks += said.stats.group_asks;
    given += said.stats.group_given_bytes;
    assert_true(peer_end(member));
    member->process = 0;
}

static void a_round(void)
{
    peer members[MEMBERS];
    uint8_t is_stopped[MEMBERS] = {0};
    unsigned left = MEMBERS, befallen = 0;
    for (unsigned i = 0; i < MEMBERS; i++)
        members[i] = member_begin();
    while (left > 0) {
        struct pollfd waits[MEMBERS];
        for (unsigned i = 0; i < MEMBERS; i++)
            waits[i] = (struct pollfd){.fd = members[i].process == 0 ? -1 : members[i].file,
                                       .events = POLLIN};
        (void)poll(waits, MEMBERS, befallen < 20 ? (int)draw(20) : 100);
        for (unsigned i = 0; i < MEMBERS; i++)
            if (members[i].process != 0 && waits[i].revents != 0 && !is_stopped[i]) {
                member_over(&members[i]);
                left--;
            }
        if (befallen++ < 20)
            befall(members, is_stopped);
        for (unsigned i = 0; i < MEMBERS && befallen >= 20; i++)
            if (is_stopped[i]) {
                peer_go_on(&members[i]);
                is_stopped[i] = 0;
            }
    }
}

static uint64_t rounds;

static void all_at_once(void **state)
{
    (void)state;
    peers_begin(DEVICE_MIB);
    for (uint64_t i = 0; i < rounds; i++)
        a_round();
    assert_true(peers_left_nothing(DEVICE_MIB));
    assert_int_equal(peers_end(NULL), 0);
    print_message("%llu refused; the last to live had asked %llu times, and given %llu MiB\n",
                  (unsigned long long)refused, (unsigned long long)asks,
                  (unsigned long long)(given / MIB));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
    rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 4;
    state_random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
