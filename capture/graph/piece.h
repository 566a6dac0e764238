/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: what was freed inside captures and is not free for everyone. See place.h; under the
 * graph lock.
 */
#ifndef TNRI_GRAPH_PIECE_H
#define TNRI_GRAPH_PIECE_H

#include "graph/place.h"

/* Records that one request may need: the block's, and one where it cuts a piece in two. */
enum { TNRI_SPARES_PER_MALLOC = 2 };

/* Has at least so many spare records. 0 if there is no host memory. */
int tnri_spares_fill(tnri_place *place, size_t count);
tnri_captured *tnri_spare_take(tnri_place *place);

/* Adds a node at which the block's uses end; 0 if there is no host memory. */
int tnri_captured_add_node(tnri_captured *captured, int32_t node);
/* Drops the nodes that come before the view's frontier, which is among the nodes. */
void tnri_captured_prune(tnri_captured *captured, int view);

/* A block has been freed and is RETIRED: it becomes a piece, joined with neighbours where that
 * loses nothing. Under the arena's lock. */
void tnri_piece_begin(tnri_captured *captured);

/* A view of the capture has moved on, or begun again. In all of its places. */
void tnri_pieces_look(struct tnri_capture *capture, int view, int anew);

/* Step 1 of a request: *block is null if there is no room. *is_reused: it has memory of pieces. */
tnr_status tnri_pieces_serve(struct tnri_capture *capture, tnri_place *place, int view,
                             const tnri_request *request, tnri_block **block, int *is_reused);

/* Step 2. Between these two calls, the pieces that the view comes after are FREE. The second call
 * withholds what `block` (or null) has left of them, and returns 1 if `block` has some of them. */
typedef struct tnri_spread {
    tnri_captured **records; /* by address; count used of room */
    tnri_range *ranges;      /* where each was */
    size_t count, room;
    tnri_world *world;
} tnri_spread;
tnr_status tnri_pieces_spread(tnri_spread *spread, struct tnri_capture *capture, tnri_place *place,
                              int view, const tnri_request *request);
int tnri_pieces_gather(tnri_spread *spread, tnri_place *place, const tnri_block *block);

/* For the validator: the list that a piece belongs to, and the views that come after its nodes. */
tnri_captured **tnri_piece_list(tnri_captured *piece);
uint64_t tnri_piece_views(const tnri_captured *piece);

/* Makes all pieces of a place clean. */
void tnri_pieces_clean(tnri_place *place);
/* The capture is over, but others into the place are not: its pieces wait for these. */
void tnri_pieces_orphan(tnri_place *place, const struct tnri_capture *capture);

#endif
