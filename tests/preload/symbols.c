/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dlsym must go on to mean with Tenure's in front of it: answers by who asks, names that are
 * not ours, names that only look like it, and errors. Needs no driver; says with `driver` that
 * there is one. Prints what must be the same with and without Tenure.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Looks like the driver's, and is this program's own. */
__attribute__((visibility("default"))) int cublasCreate_v2(void);
__attribute__((visibility("default"))) int cuMemAllocator(void);

int cublasCreate_v2(void)
{
    return 41;
}

int cuMemAllocator(void)
{
    return 42;
}

/* Hides the C library's from a look-up for what comes after this program. */
__attribute__((visibility("default"))) int getpagesize(void)
{
    return -7;
}

static void tell(const char *what, int good)
{
    printf("%s: %s\n", what, good ? "good" : "WRONG");
}

static int call(void *symbol)
{
    int (*function)(void);
    memcpy(&function, &symbol, sizeof(function));
    return function();
}

int main(int argc, char **argv)
{
    int has_driver = argc > 1 && strcmp(argv[1], "driver") == 0;
    void *self = dlopen(NULL, RTLD_NOW);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *next = dlsym(RTLD_NEXT, "getpagesize");
    tell("the next is not this program's", next != NULL && call(next) > 0);
    tell("the default is", call(dlsym(RTLD_DEFAULT, "getpagesize")) == -7);
    tell("a name of cuBLAS", call(dlsym(self, "cublasCreate_v2")) == 41);
    tell("a name that begins as one of ours", call(dlsym(RTLD_DEFAULT, "cuMemAllocator")) == 42);
    tell("nothing before", dlerror() == NULL);
    tell("what is nowhere", dlsym(libc, "cuMemAlloc_v2") == NULL);
    const char *error = dlerror();
    tell("and its error", error != NULL && strstr(error, "cuMemAlloc_v2") != NULL);
    tell("what is not loaded", (dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL) == has_driver);
    tell("nor here", (dlsym(self, "cuMemFree_v2") != NULL) == has_driver);
    tell("dlsym itself", dlsym(RTLD_DEFAULT, "dlsym") != NULL);
    (void)dlerror();
    tell("no such name", dlsym(self, "cuNoSuchFunction") == NULL && dlerror() != NULL);
    return 0;
}
