/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of captures share, on top of lifetime/life.h: captures that fork and join, graphs
 * that are launched and ended, and the checks after each of them.
 *
 * Every test runs under the lazy schedule and under random ones, with the race detector: what is
 * captured runs in any order that the graph's edges allow, and two uses of the same bytes that
 * nothing orders fail the test whatever that order was.
 */
#ifndef TENURE_TESTS_CAPTURE_STEPS_H
#define TENURE_TESTS_CAPTURE_STEPS_H

#include "lifetime/life.h"

#include <tenure/capture.h>

/* The streams by their part in most tests. */
#define ORIGIN (life_streams[0])  /* the capture is begun on it */
#define BRANCH (life_streams[1])  /* joins the capture */
#define OTHER (life_streams[2])   /* joins it too, or stays outside */
#define OUTSIDE (life_streams[3]) /* never belongs to a capture */

/* A graph that was captured through Tenure, with one executable of it. */
typedef struct recorded {
    tnr_cuda_graph cuda;
    CUgraphExec exec;
    tnr_graph number;
} recorded;

/* life_start with the schedule of the current round. `setting` may be null. */
void steps_start(const char *conf, const char *setting);
/* For teardown: life_stop, which fails the test if there was a race, or if anything is left. */
int steps_stop(void **state);
/* Runs all tests once for each schedule. Returns what main returns. */
int steps_run_tests(const struct CMUnitTest *tests, size_t count);
#define steps_run(tests) steps_run_tests((tests), sizeof(tests) / sizeof((tests)[0]))

/* ---- captures ------------------------------------------------------------------------------- */

/* Begins a capture into a pool (null: its own). */
void capture_begin(tnr_stream stream, tnr_pool pool);
/* Ends it: the graph must be there, its capture over and everything valid. */
recorded capture_end(tnr_stream stream);
/* Makes `to` wait for all that `from` was given, with an event that is gone afterwards. */
void order_after(tnr_stream to, tnr_stream from);
/* cuStreamIsCapturing. */
CUstreamCaptureStatus capture_status(tnr_stream stream);
/* The graph that the capture of `stream` is making. */
CUgraph capture_graph(tnr_stream stream);
/* Any block of the current capture: 4 MiB on the stream, written there. */
unsigned char *captured_block(tnr_stream stream, int value);

/* ---- graphs --------------------------------------------------------------------------------- */

void recorded_launch(const recorded *graph, tnr_stream stream);
/* Destroys the CUDA graph and the executable, those that are still there. */
void recorded_destroy(recorded *graph);
tnr_graph_info graph_info(tnr_graph graph);
/* A graph pool of device 0. */
tnr_pool graph_pool(const char *name);

/* ---- checks --------------------------------------------------------------------------------- */

/* Runs everything that can run, also destructors of user objects, and lets Tenure see it. */
void steps_settle(void);
/* 1 if Tenure still knows the graph. */
int graph_is_known(tnr_graph graph);
/* 1 if the pool exists. */
int pool_is_there(tnr_pool pool);
/* The pool that the live block is of. */
tnr_pool pool_of(const void *block);
/* 1 if the two ranges share a byte. */
int is_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* The statistics of a pool, valid and with their equation. */
tnr_stats pool_stats(tnr_pool pool);
/* All bytes of a block are `value`, now: everything has run. */
void check_bytes(const void *block, size_t bytes, int value);
/* Nothing is live, no graph and no pool is left but the default one, and after a trim nothing is
 * mapped: what every test that ends its graphs must come back to. */
void check_all_given_back(void);

#endif
