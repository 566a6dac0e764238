/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies LIBRARY DRIVER FOLDER: one libtenure in a process. Loads the library, and a copy of its
 * file in the folder, as two engines do that bring one along each, with RTLD_LOCAL.
 *
 * Broken to see it fail: no claim in library_start_alone; no release in tnr_shutdown, and none
 * after a start that failed or was refused. That the claim comes before the look only reasoning
 * shows: two threads that start at once did not meet in between.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

enum { ROUNDS = 200 };

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "copies.c:%d: not so: %s\n", __LINE__, #what);                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct copy {
    const char *path;
    tnr_status (*init)(void);
    tnr_status (*shutdown)(int);
    int (*is_running)(void);
    const char *(*last_error)(void);
    tnr_status (*malloc)(void **, size_t, int, tnr_stream);
    tnr_status (*configure)(const char *);
    pthread_barrier_t *both;
    tnr_status status;
} copy;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    CHECK(symbol != NULL);
    memcpy(function, &symbol, sizeof(symbol));
}

static copy load(const char *path)
{
    copy self = {.path = path};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    find(library, "tnr_init", &self.init);
    find(library, "tnr_shutdown", &self.shutdown);
    find(library, "tnr_is_running", &self.is_running);
    find(library, "tnr_last_error", &self.last_error);
    find(library, "tnr_malloc", &self.malloc);
    find(library, "tnr_configure", &self.configure);
    return self;
}

static void file_copy(const char *from, const char *to)
{
    char bytes[65536];
    size_t count;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in != NULL && out != NULL);
    while ((count = fread(bytes, 1, sizeof(bytes), in)) > 0)
        CHECK(fwrite(bytes, 1, count, out) == count);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

static void refused(const copy *second, const copy *first)
{
    void *ptr = NULL;
    CHECK(second->init() == TNR_ERR_SECOND_COPY);
    CHECK(strstr(second->last_error(), first->path) != NULL);
    CHECK(strstr(second->last_error(), second->path) != NULL);
    CHECK(second->malloc(&ptr, 4096, 0, NULL) == TNR_ERR_SECOND_COPY && ptr == NULL);
    CHECK(!second->is_running() && first->is_running());
}

static void *start(void *user)
{
    copy *self = user;
    pthread_barrier_wait(self->both);
    self->status = self->init();
    return NULL;
}

/* Never both; if none, then another try of one alone succeeds. */
static void start_at_once(copy *one, copy *other)
{
    pthread_barrier_t both;
    pthread_t threads[2];
    pthread_barrier_init(&both, NULL, 2);
    one->both = other->both = &both;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_create(&threads[0], NULL, start, one) == 0);
        CHECK(pthread_create(&threads[1], NULL, start, other) == 0);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        CHECK(one->status == TNR_OK || one->status == TNR_ERR_SECOND_COPY);
        CHECK(other->status == TNR_OK || other->status == TNR_ERR_SECOND_COPY);
        CHECK(one->status != TNR_OK || other->status != TNR_OK);
        CHECK(one->is_running() == (one->status == TNR_OK));
        CHECK(other->is_running() == (other->status == TNR_OK));
        if (one->status == TNR_OK)
            CHECK(one->shutdown(0) == TNR_OK);
        if (other->status == TNR_OK)
            CHECK(other->shutdown(0) == TNR_OK);
    }
    CHECK(one->init() == TNR_OK);
    CHECK(one->shutdown(0) == TNR_OK);
    pthread_barrier_destroy(&both);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 4) {
        fputs("usage: copies LIBRARY DRIVER FOLDER\n", stderr);
        return 2;
    }
    snprintf(path, sizeof(path), "%s/copy_of_libtenure.so", argv[3]);
    file_copy(argv[1], path);
    copy first = load(argv[1]), second = load(path);
    CHECK(first.init != second.init);
    CHECK(!first.is_running() && !second.is_running());

    /* Loading is not running; a start that fails leaves the process to the other. */
    setenv("TENURE_DRIVER", "/no/such/driver.so", 1);
    CHECK(first.init() == TNR_ERR_NO_DRIVER);
    CHECK(!first.is_running());
    setenv("TENURE_DRIVER", argv[2], 1);
    CHECK(second.init() == TNR_OK);
    refused(&first, &second);
    CHECK(second.init() == TNR_OK); /* it may say so again */
    CHECK(second.shutdown(0) == TNR_OK);
    CHECK(first.init() == TNR_OK);
    refused(&second, &first);
    CHECK(second.configure("reuse:poll") == TNR_OK); /* starts nothing */
    CHECK(first.shutdown(0) == TNR_OK);
    start_at_once(&first, &second);
    (void)remove(path);
    printf("one copy at a time\n");
    return 0;
}
