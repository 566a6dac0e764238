/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of captures against a model that knows the edges.
 *
 * A program makes several graphs in one pool. In each capture four streams allocate, write, read
 * each other's blocks, record these uses in one way or another, wait for each other and free, at
 * random. For each stream the model keeps the set of nodes that come before the stream's next
 * captured work. For each page of the pool it keeps the nodes at which the page's last uses end. So
 * at every allocation it knows both what must never and what must always happen:
 *
 *   never   a page whose last uses the stream does not come after, or that is live
 *   always  no growth, as long as there is a run of pages that is large enough and that the stream
 *           comes after
 *
 * After each capture all graphs so far are launched on random streams. The model knows which
 * launches must be refused: those whose memory holds a live block of another capture. The race
 * detector watches the rest, and at the end each live block must hold what its graph has written.
 */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE (2 * MIB)
#define SPAN (64 * MIB) /* no block lies across the ranges in which a pool takes addresses */

enum {
    STREAMS = LIFE_STREAMS,
    PAGES = 1024,
    NODES = 1024,
    WORDS = NODES / 64,
    BLOCKS = 64,
    GRAPHS = 3,
    STEPS = 120,
    BLOCK_PAGES_MAX = 4
};

typedef struct node_set {
    uint64_t bits[WORDS];
} node_set;

typedef struct model_block {
    unsigned char *ptr; /* null: none */
    size_t pages;
    int home;         /* stream */
    int graph;        /* that it was handed out for */
    int value;        /* what its graph writes */
    int filled;       /* node at which it was written */
    node_set ends;    /* nodes at which recorded uses end */
    unsigned open;    /* streams whose use ends with the free */
    int was_launched; /* its graph has written it */
} model_block;

typedef struct model {
    uint64_t random;
    tnr_pool pool;
    recorded graphs[GRAPHS];
    int graphs_count;                   /* captured so far */
    unsigned char owned[GRAPHS][PAGES]; /* pages handed out in a capture */
    node_set before[STREAMS];           /* of the capture under way */
    int nodes_count;
    int joined; /* bits of streams */
    model_block blocks[BLOCKS];
    unsigned char *scratch[STREAMS]; /* ordinary memory that reads go to */
    uintptr_t base;                  /* of page 0 */
    node_set last[PAGES];            /* of pages that were freed in the capture under way */
    unsigned char is_known[PAGES];   /* mapped, as far as the model has seen it */
    unsigned char is_live[PAGES];
    uint64_t served, refused, reused; /* totals, so that the test is seen to test something */
} model;

static int set_covers(const node_set *set, const node_set *part)
{
    for (int i = 0; i < WORDS; i++)
        if (part->bits[i] & ~set->bits[i])
            return 0;
    return 1;
}

static void set_join(node_set *set, const node_set *other)
{
    for (int i = 0; i < WORDS; i++)
        set->bits[i] |= other->bits[i];
}

static int set_has(const node_set *set, int node)
{
    return (int)(set->bits[node / 64] >> (node % 64) & 1);
}

static int below(model *self, int bound)
{
    return (int)unit_below(&self->random, (uint64_t)bound);
}

/* A node was captured on the stream. */
static int node_add(model *self, int stream)
{
    int node = self->nodes_count++;
    assert_true(node < NODES);
    self->before[stream].bits[node / 64] |= UINT64_C(1) << (node % 64);
    return node;
}

static int joined_stream(model *self)
{
    int stream;
    do
        stream = below(self, STREAMS);
    while ((self->joined >> stream & 1) == 0);
    return stream;
}

/* A live block of the capture under way; null if the dice fall on none. */
static model_block *live_block(model *self)
{
    for (int tries = 0; tries < 8; tries++) {
        model_block *block = &self->blocks[below(self, BLOCKS)];
        if (block->ptr != NULL && block->graph == self->graphs_count)
            return block;
    }
    return NULL;
}

static size_t page_of(const model *self, const void *ptr)
{
    size_t page = ((uintptr_t)ptr - self->base) / PAGE;
    assert_true(page < PAGES);
    return page;
}

/* ---- steps of a capture --------------------------------------------------------------------- */

/* 1 if there is a run of so many pages that the stream may have. */
static int model_has(const model *self, int stream, size_t pages)
{
    size_t run = 0;
    for (size_t i = 0; i < PAGES; i++) {
        int good = self->is_known[i] && !self->is_live[i] &&
                   set_covers(&self->before[stream], &self->last[i]);
        if ((self->base + i * PAGE) % SPAN == 0)
            run = 0;
        run = good ? run + 1 : 0;
        if (run == pages)
            return 1;
    }
    return 0;
}

static void step_malloc(model *self)
{
    model_block *block = &self->blocks[below(self, BLOCKS)];
    int stream = joined_stream(self);
    size_t pages = (size_t)below(self, BLOCK_PAGES_MAX) + 1;
    if (block->ptr != NULL)
        return;
    uint64_t reserved = pool_stats(self->pool).reserved_bytes.current;
    int must_reuse = model_has(self, stream, pages);
    memset(block, 0, sizeof(*block));
    block->ptr = unit_malloc(pages * PAGE, life_streams[stream]);
    block->pages = pages;
    block->home = stream;
    block->graph = self->graphs_count;
    block->value = below(self, 255) + 1;
    assert_ptr_equal(pool_of(block->ptr), self->pool);
    if (self->base == 0)
        self->base = (uintptr_t)block->ptr - (uintptr_t)block->ptr % PAGE - PAGES / 4 * PAGE;
    uint64_t grown = pool_stats(self->pool).reserved_bytes.current - reserved;
    if (must_reuse && grown > 0) {
        print_error("the pool grew by %llu bytes for %zu pages that were there\n",
                    (unsigned long long)grown, pages);
        fail();
    }
    for (size_t i = page_of(self, block->ptr), end = i + pages; i < end; i++) {
        assert_true(i < PAGES);
        assert_false(self->is_live[i]);
        if (!set_covers(&self->before[stream], &self->last[i])) {
            print_error("page %zu was handed out before its last use\n", i);
            fail();
        }
        self->is_known[i] = 1;
        self->is_live[i] = 1;
        self->owned[self->graphs_count][i] = 1;
    }
    self->served++;
    self->reused += grown == 0;
    life_fill(block->ptr, pages * PAGE, block->value, life_streams[stream]);
    block->filled = node_add(self, stream);
}

/* A stream that comes after the write reads, and says so in one way or another. */
static void step_use(model *self)
{
    model_block *block = live_block(self);
    int stream = joined_stream(self);
    if (block == NULL || !set_has(&self->before[stream], block->filled))
        return;
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)self->scratch[stream],
                                       (CUdeviceptr)block->ptr + (block->pages - 1) * PAGE, PAGE,
                                       life_streams[stream]),
                     CUDA_SUCCESS);
    (void)node_add(self, stream);
    if (stream == block->home)
        return;
    if (below(self, 2)) {
        assert_ok(tnr_record_use(block->ptr + below(self, (int)PAGE), life_streams[stream]));
        set_join(&block->ends, &self->before[stream]);
    } else {
        assert_ok(tnr_record_stream(block->ptr + below(self, (int)PAGE), life_streams[stream]));
        block->open |= 1u << stream;
    }
}

static void step_order(model *self)
{
    int from = joined_stream(self), to = below(self, STREAMS);
    if (to == from)
        return;
    order_after(life_streams[to], life_streams[from]);
    set_join(&self->before[to], &self->before[from]);
    self->joined |= 1 << to;
}

static void step_free(model *self)
{
    model_block *block = live_block(self);
    if (block == NULL)
        return;
    set_join(&block->ends, &self->before[block->home]);
    for (int s = 0; s < STREAMS; s++)
        if (block->open >> s & 1)
            set_join(&block->ends, &self->before[s]);
    int by = joined_stream(self);
    if (below(self, 4) == 0) {
        set_join(&block->ends, &self->before[by]);
        assert_ok(tnr_free_on(block->ptr, life_streams[by]));
    } else {
        assert_ok(tnr_free(block->ptr));
    }
    for (size_t i = page_of(self, block->ptr), end = i + block->pages; i < end; i++) {
        self->is_live[i] = 0;
        self->last[i] = block->ends;
    }
    block->ptr = NULL;
}

/* One capture, and its graph. */
static void capture_run(model *self)
{
    memset(self->before, 0, sizeof(self->before));
    memset(self->last, 0, sizeof(self->last));
    self->nodes_count = 0;
    int origin = below(self, STREAMS);
    self->joined = 1 << origin;
    capture_begin(life_streams[origin], self->pool);
    for (int step = 0; step < STEPS; step++) {
        int what = below(self, 10);
        if (what < 4)
            step_malloc(self);
        else if (what < 6)
            step_use(self);
        else if (what < 7)
            step_order(self);
        else
            step_free(self);
    }
    for (int s = 0; s < STREAMS; s++)
        if (s != origin && self->joined >> s & 1)
            order_after(life_streams[origin], life_streams[s]);
    self->graphs[self->graphs_count] = capture_end(life_streams[origin]);
    self->graphs_count++;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* 1 if the graph's memory holds a live block of another capture. */
static int is_threatened(const model *self, int graph)
{
    for (int b = 0; b < BLOCKS; b++) {
        const model_block *block = &self->blocks[b];
        if (block->ptr == NULL || block->graph == graph)
            continue;
        for (size_t i = page_of(self, block->ptr), end = i + block->pages; i < end; i++)
            if (self->owned[graph][i])
                return 1;
    }
    return 0;
}

static void launch(model *self, int graph)
{
    const recorded *one = &self->graphs[graph];
    if (one->exec == NULL)
        return;
    tnr_status status = tnr_graph_launch(one->number, one->exec, life_streams[below(self, 4)]);
    int threatened = is_threatened(self, graph);
    if (status != (threatened ? TNR_ERR_OVERWRITE : TNR_OK)) {
        print_error("graph %d, %s: %s %s\n", graph, threatened ? "threatened" : "safe",
                    tnr_status_name(status), status == TNR_OK ? "" : tnr_last_error());
        fail();
    }
    self->refused += (uint64_t)threatened;
    for (int b = 0; b < BLOCKS && !threatened; b++)
        if (self->blocks[b].ptr != NULL && self->blocks[b].graph == graph)
            self->blocks[b].was_launched = 1;
}

/* Between captures: launches, frees of outputs, a graph that ends. */
static void launches_run(model *self)
{
    for (int i = 0; i < 3 * self->graphs_count; i++) {
        launch(self, below(self, self->graphs_count));
        model_block *block = &self->blocks[below(self, BLOCKS)];
        if (block->ptr == NULL || below(self, 2))
            continue;
        for (size_t page = page_of(self, block->ptr), end = page + block->pages; page < end; page++)
            self->is_live[page] = 0;
        assert_ok(tnr_free(block->ptr));
        block->ptr = NULL;
    }
    if (below(self, 3) == 0)
        recorded_destroy(&self->graphs[below(self, self->graphs_count)]);
}

static void check_contents(model *self)
{
    simcuda_run(UINT64_MAX);
    if (simcuda_races() > 0)
        print_error("race: %s\n", simcuda_race_last());
    assert_int_equal(simcuda_races(), 0);
    for (int b = 0; b < BLOCKS; b++)
        if (self->blocks[b].ptr != NULL && self->blocks[b].was_launched)
            check_bytes(self->blocks[b].ptr, self->blocks[b].pages * PAGE, self->blocks[b].value);
}

static void program_run(model *self, uint64_t seed)
{
    memset(self, 0, sizeof(*self));
    self->random = seed;
    steps_start("cross_stream:off", NULL);
    self->pool = graph_pool("random");
    for (int s = 0; s < STREAMS; s++)
        self->scratch[s] = unit_malloc(PAGE, life_streams[s]);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < GRAPHS; i++) {
        capture_run(self);
        launches_run(self);
        check_contents(self);
    }
    for (int b = 0; b < BLOCKS; b++)
        if (self->blocks[b].ptr != NULL)
            assert_ok(tnr_free(self->blocks[b].ptr));
    for (int i = 0; i < GRAPHS; i++)
        recorded_destroy(&self->graphs[i]);
    for (int s = 0; s < STREAMS; s++)
        assert_ok(tnr_free(self->scratch[s]));
    steps_settle();
    assert_ok(tnr_pool_destroy(self->pool));
    check_all_given_back();
}

static uint64_t seeds_count = 20, seed_first = 1;

static void random_programs(void **state)
{
    static model self;
    uint64_t served = 0, reused = 0, refused = 0;
    for (uint64_t seed = seed_first; seed < seed_first + seeds_count; seed++) {
        if (seed > seed_first)
            assert_int_equal(steps_stop(state), 0);
        char label[32];
        snprintf(label, sizeof(label), "seed %llu", (unsigned long long)seed);
        simcuda_origin(label);
        program_run(&self, seed);
        simcuda_origin(NULL);
        served += self.served;
        reused += self.reused;
        refused += self.refused;
    }
    print_message("%llu allocations, %llu without growth, %llu launches refused\n",
                  (unsigned long long)served, (unsigned long long)reused,
                  (unsigned long long)refused);
    assert_true(reused > served / 3 && refused > 0);
}

/* test_capture_random [SEEDS [FIRST]] */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_programs, steps_stop)};
    if (argc > 1)
        seeds_count = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed_first = strtoull(argv[2], NULL, 10);
    return steps_run(tests);
}
