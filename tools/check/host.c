/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions, and callbacks of streams. When one has run, whoever hears of it knows that all
 * earlier work of the stream is over. The checker cannot see how they hear of it. So a function of
 * ours is enqueued instead. It marks that work as known to the host, and then calls the program's
 * function.
 */
#include <stdlib.h>

#include "check/findings.h"
#include "check/places.h"
#include "check/streams.h"

typedef struct wrapped_function {
    CUhostFn function;
    CUstreamCallback callback; /* in its stead */
    void *data;
    check_moment *moment;
} wrapped_function;

static void *function_wrap(const char *call, CUstream handle, const wrapped_function *from)
{
    wrapped_function *wrapped = NULL;
    check_name name = check_name_of(handle);
    /* In a capture it would be called by each launch: see graph.c. */
    if (name.is_capturing || (from->function == NULL && from->callback == NULL) || !check_enter())
        return NULL;
    const check_stream *stream = check_stream_find(&name);
    if (stream != NULL)
        wrapped = malloc(sizeof(*wrapped));
    if (wrapped != NULL) {
        *wrapped = *from;
        wrapped->moment = check_moment_of(stream);
    } else {
        check_unseen_note("a host function was not followed", check_place_of(call, NULL, NULL), 0);
    }
    check_leave();
    return wrapped;
}

void *check_host_function(CUstream stream, CUhostFn function, void *data)
{
    wrapped_function own = {.function = function, .data = data};
    return function_wrap("cuLaunchHostFunc", stream, &own);
}

void *check_callback(CUstream stream, CUstreamCallback function, void *data)
{
    wrapped_function own = {.callback = function, .data = data};
    return function_wrap("cuStreamAddCallback", stream, &own);
}

void CUDA_CB check_host_function_run(void *user)
{
    wrapped_function own = *(wrapped_function *)user;
    free(user);
    check_event_seen(own.moment, 1);
    own.function(own.data);
}

void CUDA_CB check_callback_run(CUstream stream, CUresult status, void *user)
{
    wrapped_function own = *(wrapped_function *)user;
    free(user);
    check_event_seen(own.moment, status == CUDA_SUCCESS);
    own.callback(stream, status, own.data);
}

void check_host_function_refused(void *user)
{
    wrapped_function *wrapped = user;
    check_event_seen(wrapped->moment, 0);
    free(wrapped);
}
