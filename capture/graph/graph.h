/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what Tenure keeps for them, and how it learns of their end.
 *
 * Tenure gives each CUDA graph a CUDA user object. The driver lets go of it, on a thread of its own
 * choice, when the graph, its clones, its executables and their launches are all over. The
 * destructor of the user object only sets a flag. Tenure looks at the flag when it is next asked
 * for something that takes time: tnri_graphs_settle.
 *
 * Under the graph lock, except where it says otherwise.
 */
#ifndef TNRI_GRAPH_GRAPH_H
#define TNRI_GRAPH_GRAPH_H

#include "base/table.h"
#include "graph/place.h"
#include "graph/set.h"
#include "memory/arena/wait.h"

enum { TNRI_GRAPH_NAME_BYTES = 64 };

/* What the user object points at. It outlives the graph's record if necessary. */
typedef struct tnri_tether {
    _Atomic int state; /* 0: tied; 1: the driver has let go; 2: we have */
    /* What the driver refused to let go of, for another try; under the graph lock: */
    CUuserObject object; /* not released; else null */
    CUgraph doomed;      /* not destroyed; else null */
    int is_tied;         /* 1: the user object was made */
    struct tnri_tether *next;
} tnri_tether;

typedef struct tnri_graph {
    tnri_link link; /* by the number */
    struct tnri_graph *next, *prev;
    tnr_graph number;
    char name[TNRI_GRAPH_NAME_BYTES];
    tnri_device *device;
    tnri_place *place;  /* null: adopted */
    tnri_place *beside; /* its own ones, each on another device */
    tnri_tether *tether;
    int is_capturing;
    int was_attached; /* 1: its capture was begun by the engine */
    CUgraph attached; /* the graph that the driver named then; may be gone */
    int is_tied;      /* 1: the CUDA graph has the tether */
    /* 1: there was no host memory to note what it would overwrite, so it is not launched any
     * more. */
    int is_doubtful;
    tnri_set holds;     /* of tnri_uses: blocks that are kept, none that its capture handed out */
    tnri_set late;      /* others, freed during a capture whose nodes could not be read */
    size_t holds_bytes; /* of both */
    /* Of tnr_pool: the pools of the blocks in both, except its places'. Launches need them awake. A
     * pool with a held block ends only by force. */
    tnri_set outside;
    tnri_range *ranges; /* handed out; sorted and disjoint once the capture is over */
    size_t ranges_count, ranges_room;
    uint64_t blocks, reused, launches;
    int is_audited; /* 1: the sums of the latest audit are: */
    uint64_t verdicts[TNR_AUDIT_VERDICT_COUNT], unread;
} tnri_graph;

/* 1: the CUDA graph and all that was made from it are gone, or it never came to be. */
int tnri_graph_is_let_go(const tnri_graph *graph);
/* A new graph, in the list; null: no host memory. */
tnri_graph *tnri_graph_make(tnri_device *device, tnri_place *place, const char *name);
tnri_graph *tnri_graph_find(tnr_graph number);
tnri_graph *tnri_graph_walk(const tnri_graph *graph);
/* The same with an error. */
tnr_status tnri_graph_named(tnr_graph number, tnri_graph **graph);

/* Its places, the one that it was captured into first; null begins, and is the end. */
tnri_place *tnri_graph_places(const tnri_graph *graph, const tnri_place *place);
/* The one on a device; null: it has none there. */
tnri_place *tnri_graph_place_on(const tnri_graph *graph, const tnri_device *device);
/* 1 if it is one of its places. */
int tnri_graph_has_place(const tnri_graph *graph, const tnri_place *place);
/* Gives the graph a place of its own on one more device, for the capture that is under way; takes
 * the latest of these away again, into which no capture is under way. */
tnr_status tnri_graph_place_add(tnri_graph *graph, tnri_device *device, tnri_place **place);
void tnri_graph_place_remove(tnri_graph *graph);

/* Ties the graph to a CUDA graph. */
tnr_status tnri_graph_tie(tnri_graph *graph, CUgraph cuda_graph);

/* Destroys a CUDA graph that no caller gets. If the driver refuses, tries again later. */
void tnri_graph_discard(tnri_graph *graph, CUgraph cuda_graph);

/* Ends a graph: lets go what it held. */
void tnri_graph_end(tnri_graph *graph);

/* Keeps a block for the graph, once. Under the arena's lock. */
tnr_status tnri_graph_hold(tnri_graph *graph, tnri_arena *arena, tnri_block *block);
/* Takes over the holds of a capture, which then has none. It cannot fail. */
void tnri_graph_take_holds(tnri_graph *graph, tnri_set *holds);
/* Gives up the holds of a set, which is then empty. */
void tnri_holds_let_go(tnri_device *device, tnri_set *holds);
/* Gives up the holds that the graph has on blocks of an arena, or of a device: `of` is either. In
 * the context. */
void tnri_graph_let_go_of(tnri_graph *graph, const void *of);
/* 1 if the graph, or a set, keeps a block of the arena or the device. */
int tnri_graph_keeps_of(const tnri_graph *graph, const void *of);
int tnri_holds_are_of(const tnri_set *holds, const void *of);

/* Keeps every block that a CUDA graph refers to and that its capture did not hand out. *is_read is
 * 1 if all nodes have been read; then holds that tnri_graph_take_holds took over are given up if no
 * node refers to their block. On failure what was kept stays kept. In the context. */
tnr_status tnri_graph_hold_all(tnri_graph *graph, CUgraph cuda_graph, int *is_read);

/* Notes a block that the graph's capture handed out; 0 if there is no host memory. */
int tnri_graph_note(tnri_graph *graph, uintptr_t base, size_t bytes);
/* Sorts and merges the ranges. */
void tnri_graph_ranges_settle(tnri_graph *graph);
/* 1 if [base, end) meets a range of the graph, whose ranges are settled. */
int tnri_graph_meets(const tnri_graph *graph, uintptr_t base, uintptr_t end);

/* Ends the graphs that the driver has let go of, and the private pools that nothing needs any more.
 * Any thread, no lock held; costs two loads if there is nothing. */
void tnri_graphs_settle(void);

/* Ends private pools that have no graph, launch or live block, as far as the driver allows it. */
void tnri_orphans_end(void);

#endif
