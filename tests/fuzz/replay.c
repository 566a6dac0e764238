/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay SECONDS FILE..., or replay COUNTx FILE...: the harness without libFuzzer, for every
 * compiler.
 *
 * Runs each file whole and cut off at every byte, and then for some seconds, or so many times,
 * files in which bytes were changed, taken out, doubled or exchanged with another's. The numbers
 * come from a seed that
 * is printed and can be given as TENURE_TEST_SEED. With a count, no file may take 10 s of processor
 * time, and the process never 1 GiB.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "fuzz.h"

enum { FILES_MAX = 256, BYTES_MAX = 1 << 20 };

typedef struct seed_file {
    unsigned char *bytes;
    size_t count;
} seed_file;

static seed_file files[FILES_MAX];
static size_t files_count;
static uint64_t random_state;

static uint64_t below(uint64_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % (bound ? bound : 1);
}

static void file_add(const char *path)
{
    FILE *file = fopen(path, "rbe");
    seed_file *one = &files[files_count];
    if (!file || files_count == FILES_MAX) {
        fprintf(stderr, "replay: %s cannot be used\n", path);
        exit(2);
    }
    one->bytes = malloc(BYTES_MAX);
    one->count = one->bytes ? fread(one->bytes, 1, BYTES_MAX, file) : 0;
    if (one->count == 0 || one->count == BYTES_MAX) {
        fprintf(stderr, "replay: %s is empty or too large\n", path);
        exit(2);
    }
    fclose(file);
    files_count++;
}

/* The most processor time that a file has taken. */
static clock_t longest;

/* A copy of exactly this size, so that a sanitizer sees a read beyond it. */
static void run(const unsigned char *bytes, size_t count)
{
    clock_t begin = clock();
    unsigned char *copy = malloc(count ? count : 1);
    if (!copy)
        exit(4);
    memcpy(copy, bytes, count);
    (void)LLVMFuzzerTestOneInput(copy, count);
    free(copy);
    clock_t taken = clock() - begin;
    longest = taken > longest ? taken : longest;
}

/* Returns 0 if no file was dear. */
static int costs_check(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double seconds = (double)longest / CLOCKS_PER_SEC;
    printf("at most %.1f s for a file, and %ld MiB\n", seconds, used.ru_maxrss >> 10);
    return seconds > 10 || used.ru_maxrss >= 1 << 20;
}

static void change(unsigned char *bytes, size_t *count)
{
    static const unsigned char odd[] = {0, 1, 0x7f, 0x80, 0xff, '(', '.', '}', ']', 'q', 'h', '"'};
    size_t at = (size_t)below(*count), length = (size_t)below(32) + 1;
    const seed_file *other = &files[below(files_count)];
    length = length < *count - at ? length : *count - at;
    switch (below(6)) {
    case 0:
        bytes[at] ^= (unsigned char)(1u << below(8));
        break;
    case 1:
        bytes[at] = odd[below(sizeof(odd))];
        break;
    case 2: /* take out */
        memmove(bytes + at, bytes + at + length, *count - at - length);
        *count -= length;
        break;
    case 3: /* double */
        memmove(bytes + at + length, bytes + at, *count - at);
        *count += length;
        break;
    default: /* from another */
        if (length <= other->count)
            memcpy(bytes + at, other->bytes + below(other->count - length + 1), length);
        break;
    }
    if (*count == 0)
        *count = 1;
}

int main(int argc, char **argv)
{
    static unsigned char mutant[BYTES_MAX + 64 * 33];
    const char *given = getenv("TENURE_TEST_SEED");
    uint64_t runs = 0;
    for (int i = 2; i < argc; i++)
        file_add(argv[i]);
    if (files_count == 0)
        return 2;
    random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("TENURE_TEST_SEED=%llu\n", (unsigned long long)random_state);
    fflush(stdout);
    for (size_t i = 0; i < files_count; i++)
        for (size_t length = 0; length <= files[i].count; length++, runs++)
            run(files[i].bytes, length);
    char *unit;
    long wanted = strtol(argv[1], &unit, 10);
    int is_count = *unit == 'x';
    time_t end = time(NULL) + wanted;
    for (long done = 0; is_count ? done < wanted : time(NULL) < end; done++) {
        const seed_file *one = &files[below(files_count)];
        size_t count = one->count;
        memcpy(mutant, one->bytes, count);
        for (uint64_t changes = below(8) + 1; changes > 0; changes--)
            change(mutant, &count);
        run(mutant, count);
        runs++;
    }
    printf("%llu runs of %zu files\n", (unsigned long long)runs, files_count);
    for (size_t i = 0; i < files_count; i++)
        free(files[i].bytes);
    return is_count ? costs_check() : 0;
}
