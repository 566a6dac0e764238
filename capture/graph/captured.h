/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of captures: handed out, used and freed while one is under way. See place.h for how;
 * under the graph lock.
 */
#ifndef TNRI_GRAPH_CAPTURED_H
#define TNRI_GRAPH_CAPTURED_H

#include "graph/capture.h"

/* Hands out memory of one of the capture's places on a stream of the capture. */
tnr_status tnri_place_malloc(tnri_capture *capture, tnri_place *place, tnr_stream stream,
                             const tnri_request *request, void **ptr);

/* Frees a block that was handed out in a capture under way. 0 if it is no such block, or not live,
 * or does not start at `ptr`. */
int tnri_place_release(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync);

/* A stream of the capture uses the block that contains `ptr`. */
tnr_status tnri_place_use(tnri_capture *capture, tnri_arena *arena, const void *ptr,
                          tnr_stream stream, int until_free);

/* tnri_upper.captured_gone */
void tnri_captured_free(void *captured);

#endif
