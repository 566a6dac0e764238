/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: their names, and each thread's last one. cudaGetErrorString gives NVIDIA's words for
 * those that the simulated device gives, and the words of the name for others.
 */
#include "rt.h"

#include <pthread.h>
#include <string.h>

static _Thread_local cudaError_t last;

/* What ends a context stays until it is reset. */
static int is_sticky(cudaError_t error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout ||
           (error >= cudaErrorHardwareStackError && error <= cudaErrorLaunchFailure) ||
           error == cudaErrorAssert;
}

cudaError_t rt_fail(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

void rt_errors_clear(void)
{
    last = cudaSuccess;
}

cudaError_t rt_end(CUresult result)
{
    return rt_fail((cudaError_t)result);
}

cudaError_t rt_unserved(const char *what)
{
    enum { SAID_MAX = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *said[SAID_MAX]; /* under the lock; names are constants */
    static size_t said_count;
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < said_count && strcmp(said[i], what) != 0)
        i++;
    if (i == said_count && said_count < SAID_MAX) {
        said[said_count++] = what;
        rt_say("%s: the simulated device has none of this, so the call fails with 801, not "
               "supported. It needs a GPU",
               what);
    }
    pthread_mutex_unlock(&lock);
    return rt_fail(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    if (!is_sticky(error))
        last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

/* ---- names and words ------------------------------------------------------------------------ */

typedef struct described {
    cudaError_t error;
    const char *name;
    const char *said; /* null: `words` */
    char words[64];   /* written once, under `once` */
} described;

static described all[] = {
#define ERROR(code) {code, #code, NULL, ""},
#define SAID(code, sentence) {code, #code, sentence, ""},
#include "errors.def"
#undef SAID
#undef ERROR
};

static int is_in(char letter, char first, char last_of)
{
    return letter >= first && letter <= last_of;
}

/* The words of a name: cudaErrorInvalidDeviceFunction is "invalid device function". Capitals that
 * stand together stay: "ECC uncorrectable". */
static void words_of(char *words, size_t room, const char *name)
{
    size_t count = 0;
    for (const char *at = name; *at != 0 && count + 2 < room; at++) {
        int is_capital = is_in(*at, 'A', 'Z');
        int is_first = at == name || (is_capital && !is_in(at[-1], 'A', 'Z')) ||
                       (is_capital && is_in(at[1], 'a', 'z'));
        if (is_first && at != name)
            words[count++] = ' ';
        int stays = !is_capital || is_in(at[1], 'A', 'Z') || (!is_first && at[1] == 0);
        words[count++] = stays ? *at : (char)(*at - 'A' + 'a');
    }
    words[count] = 0;
}

static void all_describe(void)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].said == NULL)
            words_of(all[i].words, sizeof(all[i].words), all[i].name + (sizeof("cudaError") - 1));
}

static const described *error_find(cudaError_t error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, all_describe);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].error == error)
            return &all[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const described *known = error_find(error);
    return known == NULL ? "unrecognized error code" : known->name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    const described *known = error_find(error);
    if (known == NULL)
        return "unrecognized error code";
    return known->said != NULL ? known->said : known->words;
}
