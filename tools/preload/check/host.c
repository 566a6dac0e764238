/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions. When one has run, whoever hears of it knows that all earlier work of the stream
 * is over. The checker cannot see how they hear of it. So a function of ours is enqueued instead.
 * It marks that work as known to the host, and then calls the program's function.
 */
#include <stdlib.h>

#include "check/streams.h"

typedef struct wrapped_function {
    CUhostFn function;
    void *data;
    check_moment *moment;
} wrapped_function;

void *check_host_function(CUstream handle, CUhostFn function, void *data)
{
    wrapped_function *wrapped = NULL;
    check_name name = check_name_of(handle);
    /* In a capture it would be called by each launch: see graph.c. */
    if (name.is_capturing || function == NULL || !check_enter())
        return NULL;
    const check_stream *stream = check_stream_find(&name);
    if (stream != NULL)
        wrapped = malloc(sizeof(*wrapped));
    if (wrapped != NULL)
        *wrapped = (wrapped_function){function, data, check_moment_of(stream)};
    else
        check_unseen_means = "host functions";
    check_leave();
    return wrapped;
}

void CUDA_CB check_host_function_run(void *user)
{
    wrapped_function own = *(wrapped_function *)user;
    free(user);
    check_event_seen(own.moment, 1);
    own.function(own.data);
}

void check_host_function_refused(void *user)
{
    wrapped_function *wrapped = user;
    check_event_seen(wrapped->moment, 0);
    free(wrapped);
}
