/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures in the model: what is ordered inside a graph, and what a launch touches.
 *
 * Inside a capture a component of clocks is a chain of nodes: one chain for each stream, and one
 * more for each time that a stream was redirected. Tickets count nodes: order is reachability along
 * the edges. A block of the capture is used only inside it. A block from outside may be used too.
 * Each launch is then an access of it by the stream launched on. Tenure promises that such a block
 * stays until the graph is gone. So the program may free it at any time, and no launch needs to be
 * recorded as a use.
 */
#ifndef TENURE_FUZZ_MODEL_GRAPH_H
#define TENURE_FUZZ_MODEL_GRAPH_H

#include "model.h"

void graph_did_malloc(model *self, int slot, int stream_slot);
void graph_did_access(model *self, int slot, int stream_slot, int is_write);
void graph_did_mark(model *self, const fuzz_op *op);
void graph_did_record(model *self, const fuzz_op *op);
void graph_did_wait(model *self, const fuzz_op *op);
void graph_did_redirect(model *self, const fuzz_op *op);
void graph_did_destroy_stream(model *self, int stream_slot);
void graph_did_begin(model *self, const fuzz_op *op);
/* `is_made`: a graph came of it. */
void graph_did_end(model *self, const fuzz_op *op, int is_made);
void graph_did_launch(model *self, const fuzz_op *op);
void graph_did_destroy(model *self, const fuzz_op *op);

/* Inside a capture: as model_is_ordered and model_is_covered. */
int graph_is_ordered(model *self, int slot, int stream_slot, int is_write);
int graph_is_covered(model *self, const fuzz_op *op);
/* 1 if the stream's last captured work comes before the origin's next captured work. */
int graph_is_behind(const model_graph *graph, int stream_slot);
/* 1 if a stream of the capture may end inside it: it has joined the origin again, and is the stream
 * of no block, and of no record_stream. */
int graph_is_dispensable(const model *self, int stream_slot);
/* 1 if all streams of the capture have joined its origin again. */
int graph_is_joined(const model *self, const model_graph *graph);
/* 1 if a launch on the stream is ordered after what it must be after. */
int graph_is_launchable(model *self, const model_graph *graph, const model_stream *stream);
/* 1 if a live block of another capture lies in the graph's memory: the graph must not be launched.
 * 2 if something that another graph refers to lies there: the launch may be refused. */
int graph_is_threatened(const model *self, int graph);
/* The block is gone: no launch is an access of it any more, whatever the graph does. */
void graph_forget(model *self, int slot);
/* How many graphs refer to the block. */
int graph_references(const model *self, int slot);
/* 1 if a graph other than `except` (from 1) may touch the range when it is launched. */
int graph_owns(const model *self, uintptr_t base, size_t bytes, int except);

#endif
