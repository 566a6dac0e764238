/* SPDX-License-Identifier: Apache-2.0 */
/* See compose.h. The programs of a run are numbered: all pairs, or all triples, each in each of its
 * shapes. A run takes every so many of them, beginning where the seed says. */
#include "compose.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commit_seed.h"

enum { FEATURES_MAX = 64, PARTS_MAX = 3, TURNS = 3, OUTPUT_MAX = 4096 };

/* How the parts of a program lie to each other. */
enum { AROUND, BESIDE, FORCED, SHAPES };
static const char *const shape_names[SHAPES] = {"around", "beside", "forced"};

typedef struct program {
    const feature *parts[PARTS_MAX];
    int count;
    int shape;
} program;

static program running; /* in the child: the program that it is */
static const feature *running_part;
static char running_step[160];
static compose_runner runner;
static const feature *runner_owner;
static int is_verbose;
static int deadline_s = 300; /* for what hangs: no measure of speed */

void compose_finding(const char *format, ...)
{
    va_list more;
    va_start(more, format);
    fprintf(stderr, "%s: ", running_step);
    vfprintf(stderr, format, more);
    fputc('\n', stderr);
    va_end(more);
    fflush(stderr);
    _exit(1);
}

typedef struct taken {
    void (*step)(void *);
    void *data;
} taken;

static void *step_be(void *data)
{
    const taken *t = data;
    t->step(t->data);
    return NULL;
}

void compose_run_in_thread(void (*step)(void *), void *data)
{
    taken t = {step, data};
    pthread_t thread;
    if (pthread_create(&thread, NULL, step_be, &t) != 0)
        abort();
    (void)pthread_join(thread, NULL);
}

void compose_run_by(compose_runner by)
{
    runner = by;
    runner_owner = by == NULL ? NULL : running_part;
}

const char *compose_step(void)
{
    return running_step;
}

/* ---- one program ----------------------------------------------------------------------------- */

typedef struct step {
    world *w;
    const feature *part;
    int what; /* turns from 0, or one of these */
} step;
enum { ENTER = -1, LEAVE = -2, ABANDON = -3 };

static void step_take(void *data)
{
    const step *s = data;
    switch (s->what) {
    case ENTER:
        s->part->enter(s->w);
        break;
    case LEAVE:
        s->part->leave(s->w);
        break;
    case ABANDON:
        if (s->part->abandon != NULL)
            s->part->abandon(s->w);
        break;
    default:
        s->part->act(s->w, s->what);
    }
}

static void take(world *w, const feature *part, int what)
{
    static const char *const names[] = {"abandons", "leaves", "enters"};
    step s = {w, part, what};
    if (what >= 0)
        snprintf(running_step, sizeof(running_step), "%s acts, turn %d", part->name, what);
    else
        snprintf(running_step, sizeof(running_step), "%s %s", part->name, names[what + 3]);
    if (is_verbose)
        fprintf(stderr, "%s\n", running_step);
    running_part = part;
    if (runner != NULL && runner_owner != part)
        runner(step_take, &s);
    else
        step_take(&s);
    running_part = NULL;
    if (what != ABANDON)
        world_check(w);
}

/* Parts from `first` on, the later ones inside the earlier. */
static void around(world *w, const program *p, int first)
{
    const feature *part = p->parts[first];
    take(w, part, ENTER);
    take(w, part, 0);
    if (first + 1 < p->count)
        around(w, p, first + 1);
    for (int turn = 1; turn < TURNS; turn++)
        take(w, part, turn);
    take(w, part, LEAVE);
}

static void beside(world *w, const program *p, int is_forced)
{
    for (int i = 0; i < p->count; i++)
        take(w, p->parts[i], ENTER);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < p->count; i++)
            take(w, p->parts[i], turn);
    for (int i = 0; i < p->count; i++)
        take(w, p->parts[i], is_forced ? ABANDON : LEAVE);
}

__attribute__((noreturn)) static void program_be(const program *p, uint64_t seed)
{
    running = *p;
    snprintf(running_step, sizeof(running_step), "begin");
    world *w = world_begin(seed);
    if (p->shape == AROUND)
        around(w, &running, 0);
    else
        beside(w, &running, p->shape == FORCED);
    runner = NULL;
    snprintf(running_step, sizeof(running_step), "end");
    world_end(w, p->shape == FORCED);
    fflush(NULL);
    _exit(0);
}

static void program_name(const program *p, char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < p->count; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s ", p->parts[i]->name);
    snprintf(text + at, bytes - at, "%s", shape_names[p->shape]);
}

/* Reads what a child says until it closes its end, or until the deadline. Returns 0 then. */
static int output_read(int from, char *text)
{
    size_t at = 0;
    time_t end = time(NULL) + deadline_s;
    for (char rest[512];;) {
        struct pollfd wait = {from, POLLIN, 0};
        int ready = poll(&wait, 1, 1000);
        if (ready < 0 && errno != EINTR)
            break;
        if (ready <= 0) {
            if (time(NULL) >= end)
                return 0;
            continue;
        }
        ssize_t got = read(from, rest, sizeof(rest));
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got && at + 1 < OUTPUT_MAX; i++)
            text[at++] = rest[i];
    }
    text[at] = 0;
    return 1;
}

/* Runs a program in a child. Returns 1 if it found nothing. `text` is what it said. */
static int program_run(const program *p, uint64_t seed, char *text)
{
    int ends[2], status = 0;
    text[0] = 0;
    if (is_verbose)
        program_be(p, seed);
    if (pipe(ends) != 0)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)setpgid(0, 0); /* a child of its own ends with it */
        program_be(p, seed);
    }
    (void)close(ends[1]);
    int is_over = output_read(ends[0], text);
    if (!is_over) {
        (void)kill(-child, SIGABRT);
        (void)kill(child, SIGABRT);
    }
    (void)close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    size_t length = strlen(text);
    if (!is_over)
        snprintf(text + length, OUTPUT_MAX - length, "it hangs");
    else if (WIFSIGNALED(status))
        snprintf(text + length, OUTPUT_MAX - length, "it crashes: %s", strsignal(WTERMSIG(status)));
    return is_over && status == 0;
}

/* ---- all programs ---------------------------------------------------------------------------- */

typedef struct table {
    int count;           /* features */
    int parts;           /* of each program */
    uint64_t step;       /* every so many programs */
    uint64_t first;      /* beginning there */
    const char *only;    /* null; or programs whose name contains this */
    const char *without; /* null; or only programs whose name does not */
    uint64_t seen, ran, skipped, findings;
    uint64_t seed;
} table;

static int go_together(const program *p)
{
    for (int i = 0; i < p->count; i++)
        for (int j = 0; j < i; j++) {
            const char *a = p->parts[i]->excludes, *b = p->parts[j]->excludes;
            if (p->parts[i] == p->parts[j] || (a != NULL && b != NULL && strcmp(a, b) == 0))
                return 0;
        }
    return 1;
}

static void table_take(table *t, const program *p)
{
    char name[256], text[OUTPUT_MAX + 64];
    uint64_t number = t->seen++;
    if (number % t->step != t->first % t->step)
        return;
    program_name(p, name, sizeof(name));
    if ((t->only != NULL && strstr(name, t->only) == NULL) ||
        (t->without != NULL && strstr(name, t->without) != NULL))
        return;
    t->ran++;
    if (program_run(p, t->seed + number, text))
        return;
    t->findings++;
    printf("FOUND %s\n    %s\n", name, text);
    fflush(stdout);
}

/* In the long run three at a time are too many for every order: each choice has one, in turn. */
static void parts_turn(program *p, uint64_t by)
{
    for (int i = p->count - 1; i > 0; i--) {
        int j = (int)(by % (uint64_t)(i + 1));
        const feature *part = p->parts[i];
        by /= (uint64_t)(i + 1);
        p->parts[i] = p->parts[j];
        p->parts[j] = part;
    }
}

/* Every choice of `parts` features, pairs in both orders: the first is around, before or beside. */
static void table_walk(table *t, program *p, int first)
{
    if (p->count == t->parts) {
        for (int shape = 0; shape < SHAPES; shape++) {
            program turned = *p;
            turned.shape = shape;
            if (t->parts > 2)
                parts_turn(&turned, t->seen + t->seed);
            table_take(t, &turned);
        }
        return;
    }
    for (int i = first; i < t->count; i++) {
        p->parts[p->count++] = compose_features[i];
        if (go_together(p))
            table_walk(t, p, t->parts > 2 ? i + 1 : 0);
        p->count--;
    }
}

/* One program, by names and shape, here in this process. */
static int one_run(int count, char **words, uint64_t seed)
{
    program p = {.shape = -1};
    char text[OUTPUT_MAX + 64];
    for (int i = 0; i < count; i++) {
        int known = 0;
        for (int s = 0; s < SHAPES; s++)
            if (strcmp(words[i], shape_names[s]) == 0)
                p.shape = s, known = 1;
        for (int f = 0; compose_features[f] != NULL && p.count < PARTS_MAX; f++)
            if (strcmp(words[i], compose_features[f]->name) == 0)
                p.parts[p.count++] = compose_features[f], known = 1;
        if (!known) {
            fprintf(stderr, "'%s' is neither a feature nor a shape (around, beside, forced)\n",
                    words[i]);
            return 2;
        }
    }
    if (p.shape < 0 || p.count == 0) {
        fprintf(stderr, "name up to three features and a shape\n");
        return 2;
    }
    if (program_run(&p, seed, text))
        return 0;
    printf("FOUND %s\n", text);
    return 1;
}

int compose_main(int argc, char **argv)
{
    table t = {.parts = 2, .step = 1};
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const char *value = argv[at + 1];
        if (strcmp(argv[at], "--parts") == 0)
            t.parts = atoi(value);
        else if (strcmp(argv[at], "--every") == 0)
            t.step = strtoull(value, NULL, 10);
        else if (strcmp(argv[at], "--seed") == 0)
            t.seed = t.first =
                strcmp(value, "commit") == 0 ? commit_seed() % 100000 : strtoull(value, NULL, 10);
        else if (strcmp(argv[at], "--only") == 0)
            t.only = value;
        else if (strcmp(argv[at], "--without") == 0)
            t.without = value;
        else if (strcmp(argv[at], "--deadline") == 0)
            deadline_s = atoi(value);
        else if (strcmp(argv[at], "--verbose") == 0)
            is_verbose = atoi(value);
        else
            break;
    }
    if (at < argc && strncmp(argv[at], "--", 2) != 0)
        return one_run(argc - at, argv + at, t.seed);
    if (at < argc || t.parts < 1 || t.parts > PARTS_MAX || t.step == 0) {
        fprintf(stderr,
                "usage: %s [--parts 1..3] [--every N] [--seed N] [--only TEXT] [--without TEXT] "
                "[--deadline SECONDS] [--verbose 1] [FEATURE... SHAPE]\n",
                argv[0]);
        return 2;
    }
    while (compose_features[t.count] != NULL)
        t.count++;
    program p = {.count = 0};
    table_walk(&t, &p, 0);
    struct rusage used;
    (void)getrusage(RUSAGE_CHILDREN, &used);
    printf(
        "%d features, %d at a time: %llu of %llu programs ran (seed %llu), %llu found something; "
        "%.1f s of processor time\n",
        t.count, t.parts, (unsigned long long)t.ran, (unsigned long long)t.seen,
        (unsigned long long)t.seed, (unsigned long long)t.findings,
        (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
            (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return t.findings != 0;
}
