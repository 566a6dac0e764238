/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen_program LIBRARY [serve]: loads libtenure.so as an engine loads a plugin, uses it from
 * several threads, and closes it while those threads still run, so that their thread-local data is
 * torn down after dlclose. With `serve` the library is not shut down before, and whatever threads
 * it has of its own go on until the end of the input. The program itself knows only the header.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

enum { THREADS = 4, ROUNDS = 200 };

static tnr_status (*malloc_of_tenure)(void **, size_t, int, tnr_stream);
static tnr_status (*free_of_tenure)(void *);
static tnr_status (*shutdown_of_tenure)(int);
static const char *(*last_error)(void);
static pthread_barrier_t used, closed; /* all threads are done; the library was closed */

/* Stores a symbol in a function pointer of any type, as dlsym's manual does it. */
static void find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "%s is not in the library: %s\n", name, dlerror());
        exit(1);
    }
    memcpy(function_pointer, &symbol, sizeof(symbol));
}

static void *use(void *number)
{
    size_t bytes = 4096 * (1 + (size_t)(uintptr_t)number);
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        if (malloc_of_tenure(&ptr, bytes, 0, NULL) != TNR_OK || ptr == NULL ||
            free_of_tenure(ptr) != TNR_OK) {
            fprintf(stderr, "thread %zu, round %d: %s\n", bytes / 4096 - 1, i, last_error());
            exit(1);
        }
    }
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int argc, char **argv)
{
    int serves = argc == 3 && strcmp(argv[2], "serve") == 0;
    if (argc != 2 && !serves) {
        fprintf(stderr, "usage: dlopen_program LIBRARY [serve]\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "dlopen: %s\n", dlerror());
        return 1;
    }
    find(library, "tnr_malloc", &malloc_of_tenure);
    find(library, "tnr_free", &free_of_tenure);
    find(library, "tnr_shutdown", &shutdown_of_tenure);
    find(library, "tnr_last_error", &last_error);

    /* The program's own malloc must still be libc's: the library interposes nothing. */
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (dladdr(symbol, &info) == 0 || strstr(info.dli_fname, "libc.so") == NULL) {
        fprintf(stderr, "malloc is no longer libc's\n");
        return 1;
    }

    pthread_t threads[THREADS];
    pthread_barrier_init(&used, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use, (void *)i);
    pthread_barrier_wait(&used);
    if (!serves && shutdown_of_tenure(0) != TNR_OK) {
        fprintf(stderr, "tnr_shutdown: %s\n", last_error());
        return 1;
    }
    dlclose(library);
    if (serves) {
        puts("closed");
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }
    pthread_barrier_wait(&closed);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d threads used the loaded library %d times each\n", THREADS, ROUNDS);
    return 0;
}
