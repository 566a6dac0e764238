/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a group against an exact model. All chunks are of one size and all blocks of whole
 * chunks. So a request must succeed if and only if the live memory, and what floors keep for
 * others, leaves room for it, whatever was freed where before. Operations come one after the other,
 * drawn from a seed. Sometimes a member is killed, and another begins in its place. In the end, and
 * sometimes before, all members together have no more than was ever live at once.
 *
 *   test_group_model OPERATIONS [SEED]
 *
 * Lines changed in the library to see it fail: in the head of test_group.c.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"

enum { MEMBERS_MAX = 4, BLOCKS_MAX = 64, DEVICE_CHUNKS = 64, CHUNK_MIB = 2 };

typedef struct member {
    peer process;
    unsigned floor, ceiling; /* in chunks, like all that follows */
    unsigned live, blocks[BLOCKS_MAX];
} member;

static struct {
    member members[MEMBERS_MAX];
    unsigned members_count;
    int has_floors;
    unsigned live_peak;
    uint64_t random, operations, refused, kills;
} model;

static uint64_t draw(uint64_t below)
{
    uint64_t z = (model.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static unsigned live_all(void)
{
    unsigned live = 0;
    for (unsigned i = 0; i < model.members_count; i++)
        live += model.members[i].live;
    return live;
}

/* A floor is kept from when its member has joined, and for what others do not have by then. */
static void member_begin(member *self)
{
    char conf[128];
    static peer_answer said;
    unsigned room = DEVICE_CHUNKS, floor = 0;
    for (unsigned i = 0; i < model.members_count; i++) {
        const member *other = &model.members[i];
        if (other != self)
            room -= other->live > other->floor ? other->live : other->floor;
    }
    if (model.has_floors)
        floor = (unsigned)draw((room < DEVICE_CHUNKS / MEMBERS_MAX ? room : DEVICE_CHUNKS / 4) + 1);
    unsigned ceiling = model.has_floors ? floor + 1 + (unsigned)draw(DEVICE_CHUNKS) : 1000;
    snprintf(conf, sizeof(conf),
             "group:g,group_floor_mb:%u,group_ceiling_mb:%u,group_wait_ms:600000,"
             "chunk_exact_mb:2,chunk_max_mb:2",
             floor * CHUNK_MIB, ceiling * CHUNK_MIB);
    *self = (member){.process = peer_start(conf), .floor = floor, .ceiling = ceiling};
    assert_true(peer_ask(&self->process, PEER_MALLOC, PEER_SLOTS - 1, 1, &said));
    if (said.status == TNR_OK)
        peer_must(&self->process, PEER_FREE, PEER_SLOTS - 1, 0);
    peer_must(&self->process, PEER_TRIM, 0, 0);
}

/* ---- operations ----------------------------------------------------------------------------- */

/* 1 if the others leave room for a request. */
static int has_room(const member *self, unsigned chunks)
{
    unsigned room = DEVICE_CHUNKS - self->live;
    if (self->live + chunks <= self->floor)
        return 1;
    for (unsigned i = 0; i < model.members_count; i++) {
        const member *other = &model.members[i];
        unsigned has = other->live > other->floor ? other->live : other->floor;
        if (other != self)
            room -= has < room ? has : room;
    }
    return chunks <= room;
}

static void member_malloc(member *self, unsigned slot)
{
    static peer_answer said;
    unsigned chunks = 1 + (unsigned)draw(draw(4) == 0 ? DEVICE_CHUNKS : 6);
    int has_all = has_room(self, chunks), is_below = self->live + chunks <= self->ceiling;
    assert_true(
        peer_ask(&self->process, PEER_MALLOC, slot, (uint64_t)chunks * CHUNK_MIB * MIB, &said));
    int is_right = said.status == TNR_OK ? has_all && is_below
                   : said.status == TNR_ERR_LIMIT
                       ? !is_below
                       : said.status == TNR_ERR_OUT_OF_MEMORY && !has_all;
    if (!is_right)
        print_error("operation %llu: member %d wants %u chunks, and has %u of %u live: %s\n",
                    (unsigned long long)model.operations, (int)(self - model.members), chunks,
                    self->live, live_all(), said.text);
    assert_true(is_right);
    model.refused += said.status != TNR_OK;
    if (said.status != TNR_OK)
        return;
    self->live += chunks;
    self->blocks[slot] = chunks;
    if (live_all() > model.live_peak)
        model.live_peak = live_all();
}

static void member_free(member *self, unsigned slot)
{
    peer_must(&self->process, PEER_FREE, slot, 0);
    self->live -= self->blocks[slot];
    self->blocks[slot] = 0;
}

static void member_replace(member *self)
{
    peer_kill(&self->process);
    model.kills++;
    member_begin(self);
}

static void operate(void)
{
    member *self = &model.members[draw(model.members_count)];
    unsigned slot = (unsigned)draw(BLOCKS_MAX);
    model.operations++;
    if (draw(400) == 0) {
        member_replace(self);
    } else if (draw(20) == 0) {
        for (slot = 0; slot < BLOCKS_MAX; slot++)
            if (self->blocks[slot] > 0)
                member_free(self, slot);
    } else if (self->blocks[slot] > 0) {
        member_free(self, slot);
    } else {
        member_malloc(self, slot);
    }
}

/* ---- sums ----------------------------------------------------------------------------------- */

static uint64_t reserved_all(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < model.members_count; i++)
        sum += peer_reserved(&model.members[i].process);
    return sum;
}

/* Who grew has asked, and the others give in their own time. */
static void settle(void)
{
    uint64_t most = (uint64_t)model.live_peak * CHUNK_MIB * MIB;
    await_true(reserved_all() <= most || model.has_floors);
}

static void run(unsigned members_count, int has_floors, uint64_t operations, uint64_t seed)
{
    peers_begin(DEVICE_CHUNKS * CHUNK_MIB);
    memset(&model, 0, sizeof(model));
    model.random = seed;
    model.members_count = members_count;
    model.has_floors = has_floors;
    for (unsigned i = 0; i < members_count; i++)
        member_begin(&model.members[i]);
    while (model.operations < operations) {
        operate();
        if (model.operations % 500 == 0)
            settle();
    }
    settle();
    for (unsigned i = 0; i < members_count; i++)
        assert_true(peer_end(&model.members[i].process));
    assert_true(peers_left_nothing(DEVICE_CHUNKS * CHUNK_MIB));
    assert_int_equal(peers_end(NULL), 0);
    print_message("%u members, seed %llu: %llu operations, %llu refused, %llu killed\n",
                  members_count, (unsigned long long)seed, (unsigned long long)model.operations,
                  (unsigned long long)model.refused, (unsigned long long)model.kills);
}

static uint64_t operations_each, seed_first;

static void two_members(void **state)
{
    (void)state;
    run(2, 0, operations_each, seed_first);
}

static void four_members(void **state)
{
    (void)state;
    run(4, 0, operations_each, seed_first + 1);
}

static void with_floors(void **state)
{
    (void)state;
    run(3, 1, operations_each, seed_first + 2);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
    operations_each = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    seed_first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members),
        cmocka_unit_test(four_members),
        cmocka_unit_test(with_floors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
