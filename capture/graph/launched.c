/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of launches: see launched.h. Each stream has a queue of its own, oldest first, so that one
 * question tells whether any launch of the queue is over. The queues take turns: a look begins with
 * the queue that was looked at least recently.
 */
#include "graph/launched.h"

#include "api/library.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "gpu/capturing.h"
#include "memory/pool/graph_lock.h"

typedef struct entry {
    struct entry *next;
    tnri_event *event; /* with a reference */
    tnri_noted_launch launch;
} entry;

typedef struct queue {
    struct queue *next;
    const tnri_stream *stream; /* without a reference: only compared */
    entry *first, *last;
} queue;

_Atomic uint32_t tnri_launched_count; /* the graph lock to write */
static queue *queues;                 /* none of them empty; the graph lock */

/* ---- queues --------------------------------------------------------------------------------- */

static void first_remove(queue *own)
{
    entry *gone = own->first;
    own->first = gone->next;
    tnri_event_drop(gone->event);
    tnri_host_free(gone, sizeof(*gone));
    atomic_fetch_sub_explicit(&tnri_launched_count, 1, memory_order_relaxed);
}

/* Of its stream. The queue is not empty. */
static tnri_device *queue_device(const queue *own)
{
    return own->first->event->device;
}

/* The link that leads to the stream's queue, or to the end of the list. */
static queue **queue_link(const tnri_stream *stream)
{
    queue **link = &queues;
    while (*link != NULL && ((*link)->stream != stream || queue_device(*link) != stream->device))
        link = &(*link)->next;
    return link;
}

/* Makes a queue the last of the list, unless it is empty. */
static void queue_put_back(queue *own)
{
    if (own->first == NULL) {
        tnri_host_free(own, sizeof(*own));
        return;
    }
    queue **end = &queues;
    while (*end != NULL)
        end = &(*end)->next;
    own->next = NULL;
    *end = own;
}

static void queue_forget(queue *own)
{
    while (own->first != NULL)
        first_remove(own);
}

/* Notes those that are over. */
static void queue_look(queue *own)
{
    tnri_visit visit;
    if (tnri_device_enter(queue_device(own), &visit) != TNR_OK)
        return;
    while (own->first != NULL && tnri_event_is_over(own->first->event)) {
        tnri_note_launch_over(own->first->launch);
        first_remove(own);
    }
    tnri_device_leave(&visit);
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Enters a launch whose mark is `event`; 0 if there is no host memory. */
static int launched_enter(tnri_stream *stream, tnri_event *event, tnri_noted_launch launch)
{
    queue **link = queue_link(stream);
    queue *own = *link != NULL ? *link : tnri_host_alloc(sizeof(*own));
    entry *made = own == NULL ? NULL : tnri_host_alloc(sizeof(*made));
    if (made == NULL) {
        if (own != NULL && *link == NULL)
            tnri_host_free(own, sizeof(*own));
        return 0;
    }
    *made = (entry){.event = event, .launch = launch};
    if (*link == NULL) {
        *own = (queue){.stream = stream, .first = made};
        *link = own;
    } else {
        own->last->next = made;
    }
    own->last = made;
    atomic_fetch_add_explicit(&tnri_launched_count, 1, memory_order_relaxed);
    return 1;
}

void tnri_launched_add(tnri_stream *stream, tnri_noted_launch launch)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    if (launch.ticks == 0 || atomic_load(&tnri_launched_count) >= TNRI_LAUNCHED_MAX)
        return;
    tnri_error_aside aside;
    tnri_event *event = NULL;
    uint64_t number;
    tnri_error_take(&aside);
    if (tnri_stream_mark(stream, &event, &number) == TNR_OK &&
        !launched_enter(stream, event, launch))
        tnri_event_drop(event);
    tnri_error_restore(&aside);
}

void tnri_launched_look(size_t streams)
{
    tnri_assert(tnri_graph_lock_depth() > 0);
    queue *list = queues;
    if (list == NULL || tnri_library_is_forked())
        return;
    tnri_error_aside aside;
    tnri_error_take(&aside);
    int is_noting = tnri_is_noting();
    queue *looked = NULL, **last = &looked;
    for (; list != NULL && (streams > 0 || !is_noting); list = queues) {
        queues = list->next;
        list->next = NULL;
        if (is_noting)
            queue_look(list);
        else
            queue_forget(list);
        *last = list;
        last = &list->next;
        streams -= streams > 0;
    }
    while (looked != NULL) {
        queue *next = looked->next;
        queue_put_back(looked);
        looked = next;
    }
    tnri_error_restore(&aside);
}

void tnri_launched_settle(void)
{
    if (tnri_likely(atomic_load_explicit(&tnri_launched_count, memory_order_relaxed) == 0))
        return;
    (void)tnri_graph_lock();
    tnri_launched_look(SIZE_MAX);
    tnri_graph_unlock();
}

void tnri_launched_forget(tnri_device *device)
{
    tnri_launched_look(SIZE_MAX);
    queue *list = queues;
    queues = NULL;
    while (list != NULL) {
        queue *next = list->next;
        if (queue_device(list) == device)
            queue_forget(list);
        queue_put_back(list);
        list = next;
    }
}
