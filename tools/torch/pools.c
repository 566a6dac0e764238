/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's private pools. PyTorch captures CUDA graphs itself. Before each capture it announces
 * that memory of certain streams must come from the pool of a certain id. Afterwards it announces
 * that this is over, and later that the graph is gone. Here each id has a graph pool of Tenure's.
 * PyTorch announces before the capture has begun, when there is nothing to attach to yet. So Tenure
 * is attached to a capture at the first allocation or free on one of its streams.
 *
 * If the filter accepts a stream that is not being captured (torch.cuda.use_mem_pool by hand), the
 * memory comes from an ordinary pool of the same id.
 *
 * Ids are used again after their end, and graphs and blocks may outlive PyTorch's release of the
 * pool. Such pools wait in the same list, without an id, until they can end.
 *
 * One mutex protects both lists. It is held while filters are asked and Tenure is called; neither
 * calls back here. The number of routings is read without the mutex, so programs that capture
 * nothing pay for one load.
 */
#include "tenure_torch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* All fields belong to `mutex`. */
typedef struct torch_pool {
    tenure_torch_id id;
    int device;
    int is_ending;     /* 1: released; only waits for what is left of it */
    unsigned uses;     /* begins without a release yet */
    tnr_graph *graphs; /* captured into it, and not known to have ended; */
    size_t graphs_count, graphs_room;
    tnr_pool captured; /* what captures allocate from */
    tnr_pool plain;    /* what other streams allocate from; null until one does */
    struct torch_pool *next;
} torch_pool;

/* Streams that allocate from a pool: begun and not ended. */
typedef struct routing {
    torch_pool *pool;
    tenure_torch_filter filter; /* accepts is null: attached by tenure_torch_capture_begun */
    int is_attached;            /* 1: Tenure follows the capture and routes by itself */
    tnr_graph graph;            /* of the capture, if so */
    struct routing *next;
} routing;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static torch_pool *pools; /* of mutex */
static routing *routings; /* of mutex; the latest first */
/* Its length; written under the mutex. */
static atomic_uint routings_count;

/* ---- pools ---------------------------------------------------------------------------------- */

static torch_pool *pool_find(int device, tenure_torch_id id)
{
    for (torch_pool *pool = pools; pool != NULL; pool = pool->next)
        if (!pool->is_ending && pool->device == device && pool->id.first == id.first &&
            pool->id.second == id.second)
            return pool;
    return NULL;
}

static tnr_status pool_make(torch_pool **made, int device, tenure_torch_id id)
{
    char name[64];
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    torch_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return TNR_ERR_HOST_MEMORY;
    snprintf(name, sizeof(name), "torch pool (%llu, %llu)", id.first, id.second);
    options.name = name;
    tnr_status status = tnr_graph_pool_create(&pool->captured, device, &options);
    if (status != TNR_OK) {
        free(pool);
        return status;
    }
    pool->id = id;
    pool->device = device;
    pool->next = pools;
    pools = pool;
    *made = pool;
    return TNR_OK;
}

/* Notes a graph that needs the pool. If there is no room for it the pool's end waits a little. */
static void pool_note_graph(torch_pool *pool, tnr_graph graph)
{
    if (pool->graphs_count == pool->graphs_room) {
        size_t room = pool->graphs_room == 0 ? 4 : 2 * pool->graphs_room;
        tnr_graph *graphs = realloc(pool->graphs, room * sizeof(*graphs));
        if (graphs == NULL)
            return;
        pool->graphs = graphs;
        pool->graphs_room = room;
    }
    pool->graphs[pool->graphs_count++] = graph;
}

/* Forgets the graphs that have ended; 1 if others live. PyTorch releases a pool right before it
 * destroys the last graph. tnr_pool_destroy would wait then, for what the same thread does next. */
static int pool_has_graphs(torch_pool *pool)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    size_t live = 0;
    for (size_t i = 0; i < pool->graphs_count; i++)
        if (tnr_graph_get(&info, pool->graphs[i]) == TNR_OK)
            pool->graphs[live++] = pool->graphs[i];
    pool->graphs_count = live;
    return live > 0;
}

/* Ends one of Tenure's pools. 1: it is gone (or was gone). */
static int handle_end(tnr_pool *handle)
{
    if (*handle != NULL) {
        tnr_status status = tnr_pool_destroy(*handle);
        if (status != TNR_OK && status != TNR_ERR_INVALID_POOL)
            return 0;
        *handle = NULL;
    }
    return 1;
}

/* Ends the pools that can: a graph or a block of the others still lives. Returns how many. */
static unsigned pools_end(void)
{
    unsigned ended = 0;
    torch_pool **at = &pools;
    while (*at != NULL) {
        torch_pool *pool = *at;
        if (!pool->is_ending || pool_has_graphs(pool) ||
            !(handle_end(&pool->captured) & handle_end(&pool->plain))) {
            at = &pool->next;
            continue;
        }
        *at = pool->next;
        free(pool->graphs);
        free(pool);
        ended++;
    }
    return ended;
}

unsigned torch_pools_end(void)
{
    pthread_mutex_lock(&mutex);
    unsigned ended = pools_end();
    pthread_mutex_unlock(&mutex);
    return ended;
}

unsigned tenure_torch_pools(void)
{
    unsigned count = 0;
    pthread_mutex_lock(&mutex);
    pools_end();
    for (torch_pool *pool = pools; pool != NULL; pool = pool->next)
        count++;
    pthread_mutex_unlock(&mutex);
    return count;
}

/* ---- routings ------------------------------------------------------------------------------- */

/* Begins a routing; `filter` may be null. */
static tnr_status routing_begin(int device, tenure_torch_id id, const tenure_torch_filter *filter,
                                routing **begun)
{
    routing *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return TNR_ERR_HOST_MEMORY;
    pools_end();
    made->pool = pool_find(device, id);
    if (made->pool == NULL) {
        tnr_status status = pool_make(&made->pool, device, id);
        if (status != TNR_OK) {
            free(made);
            return status;
        }
    }
    made->pool->uses++;
    if (filter != NULL)
        made->filter = *filter;
    made->next = routings;
    routings = made;
    atomic_fetch_add(&routings_count, 1);
    *begun = made;
    return TNR_OK;
}

/* Takes a routing from the list and returns it; its filter is the caller's. */
static routing routing_end(routing **at)
{
    routing *first = *at;
    routing ended = *first;
    *at = first->next;
    atomic_fetch_sub(&routings_count, 1);
    free(first);
    return ended;
}

static void filter_end(const tenure_torch_filter *filter)
{
    if (filter->end != NULL)
        filter->end(filter->context);
}

static tnr_status routing_attach(routing *route, tnr_stream stream)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = route->pool->captured;
    tnr_status status = tnr_capture_attach(&route->graph, route->pool->device, stream, &options);
    route->is_attached = status == TNR_OK;
    if (route->is_attached) {
        (void)pool_has_graphs(route->pool); /* those that ended make room */
        pool_note_graph(route->pool, route->graph);
    }
    return status;
}

/* The ordinary pool of a routing's id; null, and a message, if there can be none. */
static tnr_pool routing_plain(routing *route)
{
    torch_pool *pool = route->pool;
    if (pool->plain == NULL) {
        char name[64];
        tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
        snprintf(name, sizeof(name), "torch pool (%llu, %llu), uncaptured", pool->id.first,
                 pool->id.second);
        options.name = name;
        if (tnr_pool_create(&pool->plain, pool->device, &options) != TNR_OK) {
            pool->plain = NULL;
            torch_failed_quietly("tnr_pool_create");
        }
    }
    return pool->plain;
}

int torch_pool_of(int device, tnr_stream stream, tnr_pool *pool)
{
    *pool = NULL;
    if (atomic_load_explicit(&routings_count, memory_order_acquire) == 0)
        return 0;
    int found = 0;
    pthread_mutex_lock(&mutex);
    for (routing *route = routings; route != NULL && !found; route = route->next) {
        const tenure_torch_filter *filter = &route->filter;
        /* Once attached Tenure knows the capture's streams itself; and PyTorch's filter, which
         * refers to its graph, may be older than the graph if the capture has failed. */
        if (route->pool->device != device || route->is_attached || filter->accepts == NULL ||
            !filter->accepts(filter->context, stream))
            continue;
        found = 1;
        /* Refused with one of these: the stream is not being captured (nor can the legacy stream
         * be), or whoever captures has attached Tenure already, which then takes no notice of the
         * plain pool. */
        tnr_status status = routing_attach(route, stream);
        if (status == TNR_ERR_CAPTURE || status == TNR_ERR_INVALID_STREAM)
            *pool = routing_plain(route);
        else if (status != TNR_OK)
            torch_failed_quietly("tnr_capture_attach");
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* ---- PyTorch's calls ------------------------------------------------------------------------ */

void tenure_torch_pool_begin(int device, tenure_torch_id id, const tenure_torch_filter *filter)
{
    routing *begun;
    pthread_mutex_lock(&mutex);
    tnr_status status = routing_begin(device, id, filter, &begun);
    pthread_mutex_unlock(&mutex);
    if (status != TNR_OK) {
        filter_end(filter);
        torch_failed("tnr_graph_pool_create", status);
    }
}

void tenure_torch_capture_begun(int device, tenure_torch_id id, tnr_stream stream)
{
    routing *begun;
    pthread_mutex_lock(&mutex);
    tnr_status status = routing_begin(device, id, NULL, &begun);
    if (status == TNR_OK) {
        status = routing_attach(begun, stream);
        /* It stays begun all the same: PyTorch will end and release it. Followed already is no
         * error. */
        if (status == TNR_ERR_CAPTURE)
            status = TNR_OK;
    }
    pthread_mutex_unlock(&mutex);
    if (status != TNR_OK)
        torch_failed("tnr_capture_attach", status);
}

void tenure_torch_pool_end(int device, tenure_torch_id id)
{
    routing ended = {.pool = NULL};
    pthread_mutex_lock(&mutex);
    torch_pool *pool = pool_find(device, id);
    for (routing **at = &routings; pool != NULL && *at != NULL; at = &(*at)->next)
        if ((*at)->pool == pool) {
            ended = routing_end(at);
            break;
        }
    pthread_mutex_unlock(&mutex);
    filter_end(&ended.filter);
    /* PyTorch ends a routing right after its cuStreamEndCapture, and not if that failed. So this is
     * where the graph can be read, and what it refers to be kept, whatever the program frees from
     * now on. A capture that goes on (use_mem_pool ended by hand) is none of this. */
    if (ended.is_attached && tnr_capture_ended(ended.graph, TNR_CAPTURED_GRAPH) == TNR_ERR_DRIVER)
        torch_failed_quietly("tnr_capture_ended");
}

void tenure_torch_pool_release(int device, tenure_torch_id id)
{
    pthread_mutex_lock(&mutex);
    torch_pool *pool = pool_find(device, id);
    if (pool != NULL && pool->uses > 0 && --pool->uses == 0)
        pool->is_ending = 1;
    pools_end();
    pthread_mutex_unlock(&mutex);
}
