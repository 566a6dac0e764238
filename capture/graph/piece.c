/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of memory inside captures: see piece.h. */
#include "graph/piece.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "graph/capture.h"
#include "memory/arena/count.h"
#include "memory/arena/run.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_retired.h"

/* ---- records -------------------------------------------------------------------------------- */

int tnri_spares_fill(tnri_place *place, size_t count)
{
    while (place->spares_count < count) {
        tnri_captured *spare = tnri_host_alloc(sizeof(*spare));
        if (spare == NULL)
            return 0;
        spare->next = place->spares;
        place->spares = spare;
        place->spares_count++;
    }
    return 1;
}

tnri_captured *tnri_spare_take(tnri_place *place)
{
    tnri_captured *spare = place->spares;
    tnri_assert(spare != NULL);
    place->spares = spare->next;
    place->spares_count--;
    spare->next = NULL;
    return spare;
}

/* Its arrays stay with it. */
static void spare_give(tnri_place *place, tnri_captured *captured)
{
    tnri_captured clean = {0};
    clean.nodes = captured->nodes;
    clean.nodes_room = captured->nodes_room;
    clean.open = captured->open;
    clean.open_room = captured->open_room;
    clean.next = place->spares;
    *captured = clean;
    place->spares = captured;
    place->spares_count++;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

int tnri_captured_add_node(tnri_captured *captured, int32_t node)
{
    for (size_t i = 0; i < captured->nodes_count; i++)
        if (captured->nodes[i] == node)
            return 1;
    if (!TNRI_ARRAY_GROW(captured->nodes, captured->nodes_room, captured->nodes_count + 1))
        return 0;
    captured->nodes[captured->nodes_count++] = node;
    return 1;
}

static int view_is_frontier(const tnri_view *view, int32_t node)
{
    for (size_t i = 0; i < view->frontier_count; i++)
        if (tnri_entry_node(view->frontier[i]) == node)
            return 1;
    return 0;
}

void tnri_captured_prune(tnri_captured *captured, int view)
{
    const tnri_order *order = &captured->capture->order;
    size_t kept = 0;
    for (size_t i = 0; i < captured->nodes_count; i++) {
        int32_t node = captured->nodes[i];
        if (!tnri_order_seen(order, view, node) || view_is_frontier(&order->views[view], node))
            captured->nodes[kept++] = node;
    }
    captured->nodes_count = kept;
}

/* 1 if the view comes after all nodes of the piece. */
static int piece_is_before(const tnri_captured *piece, int view)
{
    for (size_t i = 0; i < piece->nodes_count; i++)
        if (!tnri_order_seen(&piece->capture->order, view, piece->nodes[i]))
            return 0;
    return 1;
}

uint64_t tnri_piece_views(const tnri_captured *piece)
{
    uint64_t views = 0;
    for (size_t v = 0; v < piece->capture->order.views_count; v++)
        if (piece_is_before(piece, (int)v))
            views |= UINT64_C(1) << v;
    return views;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Two classes for each power of two. */
static unsigned piece_class(size_t bytes)
{
    uint64_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    if (units <= 1)
        return 0;
    unsigned log2 = 63u - (unsigned)__builtin_clzll(units);
    unsigned half = (unsigned)(units >> (log2 - 1) & 1);
    unsigned index = log2 * 2 + half;
    return index < TNRI_PIECE_CLASSES ? index : TNRI_PIECE_CLASSES - 1;
}

tnri_captured **tnri_piece_list(tnri_captured *piece)
{
    const tnri_block *block = piece->uses.block;
    int world = block->world->is_small ? TNRI_SMALL : TNRI_LARGE;
    return &piece->place->pieces[world][piece_class(block->bytes)];
}

static void piece_enter(tnri_captured *piece)
{
    tnri_captured **list = tnri_piece_list(piece);
    piece->prev = NULL;
    piece->next = *list;
    if (*list != NULL)
        (*list)->prev = piece;
    *list = piece;
    piece->is_piece = 1;
    piece->place->pieces_count++;
}

static void piece_leave(tnri_captured *piece)
{
    if (piece->prev != NULL)
        piece->prev->next = piece->next;
    else
        *tnri_piece_list(piece) = piece->next;
    if (piece->next != NULL)
        piece->next->prev = piece->prev;
    piece->next = NULL;
    piece->prev = NULL;
    piece->is_piece = 0;
    piece->place->pieces_count--;
}

/* The piece that a neighbouring record is; null if it is none of this capture. */
static tnri_captured *piece_at(const tnri_captured *of, const tnri_block *block)
{
    if (block == NULL || block->state != TNRI_RETIRED || block->uses == NULL)
        return NULL;
    tnri_captured *piece = block->uses->captured;
    if (piece == NULL || piece->uses.is_freed || piece->capture != of->capture)
        return NULL;
    return piece;
}

/* ---- joining -------------------------------------------------------------------------------- */

/* 1 if two pieces wait for the same nodes. Others stay apart, also where the same streams come
 * after both today: a stream that joins later may come after one of them alone. */
static int nodes_are_same(const tnri_captured *piece, const tnri_captured *other)
{
    if (piece->nodes_count != other->nodes_count)
        return 0;
    for (size_t i = 0; i < other->nodes_count; i++) {
        size_t at = 0;
        while (at < piece->nodes_count && piece->nodes[at] != other->nodes[i])
            at++;
        if (at == piece->nodes_count)
            return 0;
    }
    return 1;
}

/* Joins `piece`, in no list, with a neighbour that waits for the same nodes. Returns the result,
 * in no list. Under the arena's lock. */
static tnri_captured *piece_join(tnri_captured *piece, tnri_captured *neighbour)
{
    if (neighbour == NULL || !nodes_are_same(piece, neighbour))
        return piece;
    piece_leave(neighbour);
    tnri_block *block = piece->uses.block;
    tnri_block *other = neighbour->uses.block;
    tnri_block *lower = block->base < other->base ? block : other;
    lower->uses = &piece->uses;
    tnri_world_join(lower->world, lower);
    piece->uses.block = lower;
    spare_give(piece->place, neighbour);
    return piece;
}

/* Puts a piece where it belongs, joined with its neighbours. Under the arena's lock. */
static void piece_settle(tnri_captured *piece)
{
    piece = piece_join(piece, piece_at(piece, piece->uses.block->above));
    piece = piece_join(piece, piece_at(piece, piece->uses.block->below));
    piece_enter(piece);
}

void tnri_piece_begin(tnri_captured *captured)
{
    tnri_assert_held(&captured->place->arena->lock);
    captured->open_count = 0;
    captured->views = tnri_piece_views(captured);
    piece_settle(captured);
}

/* ---- looking -------------------------------------------------------------------------------- */

/* Calls for every piece of a place; `next` is read before, so a piece may leave its list. */
#define PIECES_EACH(place, piece, next)                                                            \
    for (int world_ = 0; world_ < TNRI_WORLDS; world_++)                                           \
        for (int class_ = 0; class_ < TNRI_PIECE_CLASSES; class_++)                                \
            for (tnri_captured *piece = (place)->pieces[world_][class_], *next;                    \
                 piece != NULL && (next = piece->next, 1); piece = next)

static void place_look(tnri_place *place, const tnri_capture *capture, int view, int anew)
{
    uint64_t bit = UINT64_C(1) << view;
    if (place->pieces_count == 0)
        return;
    PIECES_EACH(place, piece, next)
    {
        if (piece->capture != capture)
            continue;
        if (anew)
            piece->views &= ~bit;
        if ((piece->views & bit) == 0 && piece_is_before(piece, view))
            piece->views |= bit;
    }
}

void tnri_pieces_look(tnri_capture *capture, int view, int anew)
{
    for (tnri_place *place = NULL; (place = tnri_graph_places(capture->graph, place)) != NULL;)
        place_look(place, capture, view, anew);
}

/* ---- spreading ------------------------------------------------------------------------------ */

/* Makes what is left of a piece one of its own, with a copy of the nodes; without host memory for
 * them it is available to no view before the captures end. Under the arena's lock. */
static void piece_rest(const tnri_captured *of, tnri_block *block)
{
    tnri_captured *piece = tnri_spare_take(of->place);
    piece->uses.block = block;
    piece->uses.arena = of->uses.arena;
    piece->uses.captured = piece;
    block->uses = &piece->uses;
    piece->place = of->place;
    piece->capture = of->capture;
    piece->views = of->views;
    piece->nodes_count = 0;
    for (size_t i = 0; i < of->nodes_count; i++)
        if (!tnri_captured_add_node(piece, of->nodes[i])) {
            piece->capture = NULL;
            piece->views = 0;
            break;
        }
    piece_enter(piece);
}

static int record_compare(const void *a, const void *b)
{
    uintptr_t left = (*(tnri_captured *const *)a)->uses.block->base;
    uintptr_t right = (*(tnri_captured *const *)b)->uses.block->base;
    return (left > right) - (left < right);
}

static void spread_free(tnri_spread *spread)
{
    tnri_host_free(spread->records, spread->room * sizeof(spread->records[0]));
    tnri_host_free(spread->ranges, spread->room * sizeof(spread->ranges[0]));
}

/* Room for `count` pieces. 0 if there is no host memory. No lock held. */
static int spread_make(tnri_spread *spread, tnri_world *world, size_t count)
{
    *spread = (tnri_spread){.world = world, .room = count};
    if (count == 0)
        return 1;
    spread->records = tnri_host_alloc(count * sizeof(spread->records[0]));
    spread->ranges = tnri_host_alloc(count * sizeof(spread->ranges[0]));
    if (spread->records != NULL && spread->ranges != NULL)
        return 1;
    spread_free(spread);
    return 0;
}

static tnr_status spread_error(void)
{
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the memory of a capture.");
}

/* Makes the pieces that are listed, in address order, FREE, with a promise of what withholding them
 * again needs. Returns the run that the last is part of; null without host memory. Under the
 * lock. */
static tnri_block *spread_begin(tnri_spread *spread)
{
    tnri_block *run = NULL;
    /* For each what one cut needs, and one more where the block cuts it in two. */
    if (!tnri_world_promise(spread->world, (spread->count + 1) * TNRI_CUT_RECORDS))
        return NULL;
    for (size_t i = 0; i < spread->count; i++) {
        tnri_captured *piece = spread->records[i];
        tnri_block *block = piece->uses.block;
        spread->ranges[i] = (tnri_range){block->base, tnri_block_end(block)};
        piece_leave(piece);
        block->uses = NULL;
        piece->uses.block = NULL;
        run = tnri_world_free(spread->world, block); /* merges with those before */
    }
    return run;
}

/* Withholds [base, end), all of it free, as the piece that the record is. *hint is a record below.
 * Under the arena's lock. */
static void range_withhold(tnri_world *world, tnri_captured *piece, tnri_range range,
                           tnri_block **hint)
{
    tnri_block *run = tnri_world_find(world, *hint, range.base);
    tnri_block *block = tnri_world_withhold(world, run, range.base, range.end);
    block->uses = &piece->uses;
    piece->uses.block = block;
    piece_settle(piece);
    *hint = piece->uses.block;
}

/* What a block that was taken has left of a range: at most two. Returns how many. */
static unsigned range_rest(tnri_range range, const tnri_block *taken, tnri_range rest[2])
{
    unsigned count = 0;
    if (taken == NULL || tnri_block_end(taken) <= range.base || taken->base >= range.end) {
        rest[count++] = range;
        return count;
    }
    if (taken->base > range.base)
        rest[count++] = (tnri_range){range.base, taken->base};
    if (tnri_block_end(taken) < range.end)
        rest[count++] = (tnri_range){tnri_block_end(taken), range.end};
    return count;
}

/* Withholds what `taken` (or null) has left of what was spread. Returns 1 if it has taken some.
 * Under the lock. */
static int spread_end(tnri_spread *spread, tnri_place *place, const tnri_block *taken)
{
    int is_reused = 0;
    tnri_block *hint = NULL;
    tnri_world *world = spread->world;
    tnri_world_unpromise(world, (spread->count + 1) * TNRI_CUT_RECORDS);
    for (size_t i = 0; i < spread->count; i++) {
        tnri_captured *piece = spread->records[i];
        tnri_range rest[2];
        unsigned rests = range_rest(spread->ranges[i], taken, rest);
        is_reused |= rests != 1 || rest[0].base != spread->ranges[i].base ||
                     rest[0].end != spread->ranges[i].end;
        if (rests == 2) { /* the upper one first: the lower may join what is below */
            tnri_block *run = tnri_world_find(world, hint, rest[1].base);
            piece_rest(piece, tnri_world_withhold(world, run, rest[1].base, rest[1].end));
        }
        if (rests > 0)
            range_withhold(world, piece, rest[0], &hint);
        else
            spare_give(place, piece);
    }
    return is_reused;
}

/* ---- serving -------------------------------------------------------------------------------- */

static uintptr_t aligned_base(const tnri_block *block, const tnri_request *request)
{
    return (block->base + request->alignment - 1) & ~(request->alignment - 1);
}

/* The piece that a record is, if the view comes after it; else null. */
static tnri_captured *piece_open_to(const tnri_capture *capture, int view, const tnri_block *block)
{
    if (block->state != TNRI_RETIRED || block->uses == NULL)
        return NULL;
    tnri_captured *piece = block->uses->captured;
    if (piece == NULL || !piece->is_piece || piece->capture != capture)
        return NULL;
    return piece->views >> view & 1 ? piece : NULL;
}

/* Lists the pieces of the lowest stretch of FREE records and pieces open to the view that has room
 * for the request. *first is its first record; null if there is none. Lowest first keeps streams
 * that have joined close together, and what they have in one stretch. Under the lock. */
static void stretch_find(tnri_spread *spread, const tnri_capture *capture, int view,
                         const tnri_request *request, tnri_block **first)
{
    const tnri_world *world = spread->world;
    for (size_t i = 0; i < world->spans_count; i++) {
        *first = NULL;
        spread->count = 0;
        for (tnri_block *block = world->span_first[i]; block != NULL; block = block->above) {
            tnri_captured *piece = piece_open_to(capture, view, block);
            if (piece == NULL && block->state != TNRI_FREE) {
                *first = NULL;
                spread->count = 0;
                continue;
            }
            if (*first == NULL)
                *first = block;
            if (piece != NULL)
                spread->records[spread->count++] = piece;
            if (aligned_base(*first, request) + request->bytes <= tnri_block_end(block))
                return;
        }
    }
    *first = NULL;
    spread->count = 0;
}

/* Carves the request out of a stretch. Under the lock. */
static tnr_status stretch_serve(tnri_spread *spread, tnri_place *place, tnri_block *first,
                                const tnri_request *request, tnri_block **block, int *is_reused)
{
    tnri_block *run = first;
    if (spread->count > 0 && (run = spread_begin(spread)) == NULL)
        return spread_error();
    *block = tnri_arena_carve(place->arena, run, request);
    if (*block != NULL)
        tnri_arena_count_served(place->arena, *block, request,
                                spread->count > 0 ? TNR_SERVED_RETIRED : TNR_SERVED_INDEX);
    *is_reused = spread->count > 0 && spread_end(spread, place, *block);
    return *block == NULL ? spread_error() : TNR_OK;
}

tnr_status tnri_pieces_serve(tnri_capture *capture, tnri_place *place, int view,
                             const tnri_request *request, tnri_block **block, int *is_reused)
{
    tnri_spread spread;
    if (!spread_make(&spread, tnri_arena_world(place->arena, request->bytes), place->pieces_count))
        return spread_error();
    tnr_status status = TNR_OK;
    tnri_block *first;
    tnri_arena_enter(place->arena);
    stretch_find(&spread, capture, view, request, &first);
    if (first != NULL)
        status = stretch_serve(&spread, place, first, request, block, is_reused);
    tnri_arena_leave(place->arena);
    spread_free(&spread);
    return status;
}

tnr_status tnri_pieces_spread(tnri_spread *spread, tnri_capture *capture, tnri_place *place,
                              int view, const tnri_request *request)
{
    tnr_status status = TNR_OK;
    if (!spread_make(spread, tnri_arena_world(place->arena, request->bytes), place->pieces_count))
        return spread_error();
    tnri_arena_enter(place->arena);
    PIECES_EACH(place, piece, next)
    if (piece->uses.block->world == spread->world &&
        piece_open_to(capture, view, piece->uses.block) != NULL)
        spread->records[spread->count++] = piece;
    if (spread->count > 0) {
        qsort(spread->records, spread->count, sizeof(spread->records[0]), record_compare);
        if (spread_begin(spread) == NULL)
            status = spread_error();
    }
    tnri_arena_leave(place->arena);
    if (status != TNR_OK)
        spread_free(spread);
    return status;
}

int tnri_pieces_gather(tnri_spread *spread, tnri_place *place, const tnri_block *taken)
{
    int is_reused = 0;
    if (spread->count > 0) {
        tnri_arena_enter(place->arena);
        is_reused = spread_end(spread, place, taken);
        tnri_arena_leave(place->arena);
    }
    spread_free(spread);
    return is_reused;
}

/* ---- the end -------------------------------------------------------------------------------- */

void tnri_pieces_clean(tnri_place *place)
{
    tnri_arena_enter(place->arena);
    PIECES_EACH(place, piece, next)
    {
        tnri_block *block = piece->uses.block;
        piece_leave(piece);
        block->uses = NULL;
        (void)tnri_world_free(block->world, block);
        spare_give(place, piece);
    }
    tnri_arena_leave(place->arena);
}

void tnri_pieces_orphan(tnri_place *place, const tnri_capture *capture)
{
    PIECES_EACH(place, piece, next)
    {
        if (piece->capture != capture)
            continue;
        piece->capture = NULL;
        piece->views = 0;
    }
}
