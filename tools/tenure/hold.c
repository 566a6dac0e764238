/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure hold`: a process that keeps published blocks for others (<tenure/publish.h>), from files
 * or from a process that has published them. It works until a signal tells it to end. SIGHUP loads
 * the files again, as the next generation.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tenure/tenure.h>

#include "cli.h"
#include "commands.h"
#include "exit_code.h"
#include "json.h"
#include "session.h"
#include "table.h"

static session_options session_texts;
static const char *older_option;
static int replace_flag, yields_flag, json_flag;

static const cli_option options[] = {
    {"replace", NULL, "also publish names that other processes hold", NULL, &replace_flag},
    {"older", "N",
     "how many generations before the latest readers may keep open\n"
     "(default 4); while more are open, no next one is published",
     &older_option, NULL},
    {"yields", NULL,
     "blocks of files that no process uses go when the group of this\n"
     "process (--conf group:NAME) is short of memory, the oldest first",
     NULL, &yields_flag},
    {"json", NULL, "output for programs, on stdout: an object on each line", NULL, &json_flag},
    {"driver", "NAME", OPTION_DRIVER_HELP, &session_texts.driver, NULL},
    {"device", "N", OPTION_DEVICE_HELP, &session_texts.device, NULL},
    {"conf", "STR", OPTION_CONF_HELP, &session_texts.settings, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

enum { NAMES_MAX = 256, STAGE_BYTES = 64 << 20, LOOK_MS = 100 };

static const cli_syntax syntax = {
    "hold",
    "keep published blocks for other processes: from files, or taken over",
    "[options] NAME=FILE|NAME...",
    "NAME=FILE loads the file and publishes it. NAME takes over the block that another process\n"
    "publishes under that name, and its later generations; that process may then end. Taking over\n"
    "copies nothing and doesn't use the device. Other processes attach with tnr_attach.\n"
    "\n"
    "hold prints a line for each block and runs until SIGINT or SIGTERM. On SIGHUP it loads the\n"
    "files again, as the next generation; readers keep what they have.\n"
    "\n"
    "Examples:\n"
    "  tenure hold weights=weights.bin\n"
    "  tenure hold weights\n"
    "\n"
    "Exit codes: 0 ended by a signal; 1 another process holds the name, or it could not be held;\n"
    "2 bad usage, or a file that cannot be read; 3 no device; 4 out of memory.\n",
    options,
    1,
    NAMES_MAX,
};

/* A name, and how it comes to be held. */
typedef struct held {
    char name[TNR_EXPORT_LABEL_BYTES];
    const char *file; /* null: taken over */
    uint64_t generation;
    int is_told; /* 1: that it cannot be held just now */
} held;

typedef struct holder {
    held names[NAMES_MAX];
    size_t count;
    session active;
    int has_session;
    tnr_pool pool; /* null until a file was loaded */
    tnr_publish_options how;
} holder;

/* The library's own sentence. Returns the exit code. */
static exit_code complain(const char *name, tnr_status status)
{
    fprintf(stderr, "tenure hold: %s: %s\n", name, tnr_last_error());
    return status == TNR_ERR_FILE ? EXIT_CODE_BAD_INPUT : exit_code_of(status);
}

/* ---- files ---------------------------------------------------------------------------------- */

static exit_code file_error(const char *path, const char *what)
{
    fprintf(stderr, "tenure hold: %s: %s\n", path, what);
    return EXIT_CODE_BAD_INPUT;
}

/* Copies the file to the block, piece by piece through pinned memory. */
static exit_code file_copy(const holder *all, const char *path, int file, void *block, size_t bytes,
                           char *stage)
{
    const gpu_driver *gpu = &all->active.gpu;
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < STAGE_BYTES ? bytes - done : STAGE_BYTES;
        ssize_t got = read(file, stage, part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return file_error(path, got < 0 ? strerror(errno) : "it became shorter");
        CUdeviceptr to = (CUdeviceptr)(uintptr_t)block + done;
        CUresult result = gpu->cuMemcpyHtoDAsync(to, stage, (size_t)got, NULL);
        if (result == CUDA_SUCCESS)
            result = gpu->cuStreamSynchronize(NULL);
        if (result != CUDA_SUCCESS) {
            char text[256];
            fprintf(stderr, "tenure hold: %s: copying it to the device: %s\n", path,
                    gpu_error_text(gpu, result, text, sizeof(text)));
            return EXIT_CODE_CHECK_FAILED;
        }
        done += (size_t)got;
    }
    return EXIT_CODE_OK;
}

/* Publishes a block that holds the file, and frees it: the publication keeps it. */
static exit_code file_publish(holder *all, held *one, int file, size_t bytes)
{
    void *block, *stage;
    tnr_pool_options shared = TNR_POOL_OPTIONS_INIT;
    tnr_status status = TNR_OK;
    shared.name = "published";
    shared.is_shared = 1;
    if (!all->pool)
        status = tnr_pool_create(&all->pool, all->active.device, &shared);
    if (status == TNR_OK)
        status = tnr_pool_malloc(&block, all->pool, bytes, all->active.device, NULL);
    if (status != TNR_OK)
        return complain(one->name, status);
    exit_code code = EXIT_CODE_NO_MEMORY;
    if (all->active.gpu.cuMemHostAlloc(&stage, STAGE_BYTES, 0) == CUDA_SUCCESS) {
        code = file_copy(all, one->file, file, block, bytes, stage);
        (void)all->active.gpu.cuMemFreeHost(stage);
    } else {
        fprintf(stderr, "tenure hold: %s: no pinned memory for the copy\n", one->name);
    }
    if (code == EXIT_CODE_OK) {
        status = tnr_publish(&one->generation, one->name, block, &all->how);
        code = status == TNR_OK ? EXIT_CODE_OK : complain(one->name, status);
    }
    if (tnr_free(block) != TNR_OK && code == EXIT_CODE_OK)
        code = EXIT_CODE_CHECK_FAILED;
    return code;
}

static exit_code file_load(holder *all, held *one)
{
    struct stat found;
    int file = open(one->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe: not waited for */
    exit_code code = EXIT_CODE_OK;
    if (file < 0 || fstat(file, &found) != 0)
        code = file_error(one->file, strerror(errno));
    else if (!S_ISREG(found.st_mode) || found.st_size == 0)
        code = file_error(one->file, "it is not a file, or an empty one");
    else
        code = file_publish(all, one, file, (size_t)found.st_size);
    if (file >= 0)
        (void)close(file);
    return code;
}

/* ---- holding -------------------------------------------------------------------------------- */

static void publication_print(const tnr_publication_info *info)
{
    char bytes[32];
    json_writer json;
    if (!json_flag) {
        printf("%s: generation %llu, %s, %s\n", info->name, (unsigned long long)info->generation,
               format_size(info->bytes, bytes), info->is_taken_over ? "taken over" : "published");
        return;
    }
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "name", info->name);
    json_unsigned(&json, "generation", info->generation);
    json_unsigned(&json, "bytes", info->bytes);
    json_boolean(&json, "taken_over", info->is_taken_over);
    json_object_end(&json);
    json_end(&json);
}

/* What is held now under a name. 0: nothing. */
static int held_find(const held *one, tnr_publication_info *info)
{
    *info = (tnr_publication_info){.struct_bytes = sizeof(*info)};
    for (size_t i = 0; tnr_publication_at(info, i) == TNR_OK; i++)
        if (info->is_latest && strcmp(info->name, one->name) == 0)
            return 1;
    return 0;
}

static void held_print(const held *one)
{
    tnr_publication_info info;
    if (held_find(one, &info))
        publication_print(&info);
    fflush(stdout);
}

/* Says so if a block of a file has yielded. */
static void file_follow(held *one)
{
    tnr_publication_info info;
    if (one->generation == 0 || held_find(one, &info))
        return;
    if (json_flag) {
        json_writer json;
        json_start(&json, stdout);
        json_object_begin(&json, NULL);
        json_text(&json, "name", one->name);
        json_unsigned(&json, "generation", one->generation);
        json_boolean(&json, "yielded", 1);
        json_object_end(&json);
        json_end(&json);
    } else {
        printf("%s: generation %llu has yielded: memory was short\n", one->name,
               (unsigned long long)one->generation);
    }
    fflush(stdout);
    one->generation = 0;
}

/* Takes over what is new under a name. */
static exit_code name_follow(const holder *all, held *one)
{
    uint64_t generation;
    tnr_publish_options how = all->how;
    how.yields = 0; /* it is its publisher's memory */
    tnr_status status = tnr_hold(&generation, one->name, &how);
    if (status != TNR_OK) {
        exit_code code = one->is_told ? EXIT_CODE_OK : complain(one->name, status);
        one->is_told = 1;
        return code;
    }
    one->is_told = 0;
    if (generation != one->generation) {
        one->generation = generation;
        held_print(one);
    }
    return EXIT_CODE_OK;
}

static exit_code files_load(holder *all)
{
    exit_code code = EXIT_CODE_OK;
    for (size_t i = 0; i < all->count && code == EXIT_CODE_OK; i++)
        if (all->names[i].file) {
            code = file_load(all, &all->names[i]);
            if (code == EXIT_CODE_OK)
                held_print(&all->names[i]);
        }
    return code;
}

/* Until a signal ends it. What cannot be held any more, or loaded again, is told, and the former
 * generation stays. */
static void hold_on(holder *all, const sigset_t *signals)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    for (;;) {
        int got = sigtimedwait(signals, NULL, &look);
        if (got == SIGINT || got == SIGTERM)
            return;
        if (got == SIGHUP)
            (void)files_load(all);
        for (size_t i = 0; i < all->count; i++)
            if (!all->names[i].file)
                (void)name_follow(all, &all->names[i]);
            else if (yields_flag)
                file_follow(&all->names[i]);
    }
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Reads NAME or NAME=FILE. */
static exit_code name_parse(held *one, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    if (length == 0 || length >= sizeof(one->name) || (equals && !equals[1]))
        return cli_usage_error(&syntax, "\"%s\" is neither NAME nor NAME=FILE", text);
    memcpy(one->name, text, length);
    one->name[length] = '\0';
    one->file = equals ? equals + 1 : NULL;
    return EXIT_CODE_OK;
}

/* Starts the library: with the device if there are files to be loaded to it, else without. */
static exit_code start(holder *all, int device)
{
    char error[2048] = "";
    session_choice choice;
    exit_code code = EXIT_CODE_OK;
    for (size_t i = 0; i < all->count; i++)
        all->has_session |= all->names[i].file != NULL;
    if (all->has_session) {
        code = session_open(&all->active, &session_texts, device, error, sizeof(error));
        all->has_session = code == EXIT_CODE_OK;
    } else {
        code = session_choose(&choice, session_texts.driver, error, sizeof(error));
        tnr_status status = TNR_OK;
        if (code == EXIT_CODE_OK && session_texts.settings)
            status = tnr_configure(session_texts.settings);
        if (code == EXIT_CODE_OK && status == TNR_OK)
            status = tnr_init();
        if (status != TNR_OK) {
            snprintf(error, sizeof(error), "%s", tnr_last_error());
            code = exit_code_of(status);
        }
    }
    if (code != EXIT_CODE_OK)
        fprintf(stderr, "tenure hold: %s\n", error);
    return code;
}

static exit_code hold(holder *all, int device)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before there are other threads */
    exit_code code = start(all, device);
    if (code == EXIT_CODE_OK)
        code = files_load(all);
    for (size_t i = 0; i < all->count && code == EXIT_CODE_OK; i++)
        if (!all->names[i].file)
            code = name_follow(all, &all->names[i]);
    if (code == EXIT_CODE_OK)
        hold_on(all, &signals);
    for (size_t i = 0; i < all->count; i++)
        if (all->names[i].generation > 0 && tnr_unpublish(all->names[i].name) != TNR_OK)
            (void)complain(all->names[i].name, TNR_ERR_FILE);
    if (all->has_session)
        session_close(&all->active);
    return code;
}

int command_hold(int argc, char **argv)
{
    cli_result parsed;
    long device = 0, older = 0;
    if (cli_parse(&syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if ((session_texts.device &&
         cli_number(&syntax, "device", session_texts.device, 0, 1023, &device) != 0) ||
        (older_option && cli_number(&syntax, "older", older_option, 1, 1000, &older) != 0))
        return EXIT_CODE_BAD_INPUT;
    holder *all = calloc(1, sizeof(*all));
    if (!all) {
        fputs("tenure hold: no host memory\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    exit_code code = EXIT_CODE_OK;
    all->how = (tnr_publish_options)TNR_PUBLISH_OPTIONS_INIT;
    all->how.replace = replace_flag;
    all->how.older_max = (uint32_t)older;
    all->how.yields = yields_flag;
    for (int i = 0; i < parsed.positionals_count && code == EXIT_CODE_OK; i++)
        code = name_parse(&all->names[all->count++], parsed.positionals[i]);
    size_t files = 0;
    for (size_t i = 0; i < all->count; i++)
        files += all->names[i].file != NULL;
    if (code == EXIT_CODE_OK && yields_flag && files == 0)
        code = cli_usage_error(&syntax, "--yields is for NAME=FILE: what is taken over is its "
                                        "publisher's memory");
    if (code == EXIT_CODE_OK)
        code = hold(all, (int)device);
    free(all);
    return code;
}
