/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run`: starts a program with Tenure under it. The program replaces this process, so its
 * exit code, its signals and its terminal are its own. This process waits for the program only if
 * something must be written afterwards, or might have to be because the program dies.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/alloc.h>

#include "beside.h"
#include "cli.h"
#include "commands.h"
#include "exit_code.h"
#include "run_check.h"
#include "run_journal.h"
#include "run_python.h"
#include "run_traps.h"

/* As the shell's, and as of other commands that run one. */
enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

static const char *run_conf, *run_history, *run_snapshot, *run_report;
static const char *run_check_more, *run_waste_more, *run_driver, *run_findings, *run_error_code,
    *run_suppress;
static run_traps traps;
static int run_stats, run_strict, run_json, run_checked, run_leaks, run_possible, run_account;
static int run_waste;

static const cli_option run_options[] = {
    {"conf", "STR", OPTION_CONF_HELP, &run_conf, NULL},
    {"history", "MODE", "off, light or full: what snapshots record of the past", &run_history,
     NULL},
    {"snapshot", "FILE", "write a snapshot when the program ends; %p: the process's number",
     &run_snapshot, NULL},
    {"report", "FILE",
     "write the program's memory story as an HTML page when it ends;\n"
     "history is then full unless --history says otherwise",
     &run_report, NULL},
    {"stats", NULL, "one line on stderr when the program ends: calls served, passed on", NULL,
     &run_stats},
    {"strict", NULL,
     "if Tenure fails, end the program (exit code 3) and don't go on\n"
     "with the driver's own allocator",
     NULL, &run_strict},
    {"json", NULL, "the same as --stats, as one JSON object", NULL, &run_json},
    {"check", NULL,
     "follow each use of memory on every stream, and say which is not\n"
     "ordered before the free or after the allocation; --check=host:\n"
     "also pinned memory that the host touches during a copy",
     &run_check_more, &run_checked},
    {"waste", NULL,
     "say which memory lies unused for 100 ms or more: before its first\n"
     "use, between uses, after its last one; --waste=MS: for MS or more",
     &run_waste_more, &run_waste},
    {"findings", "FILE", "with --check or --waste: also write what they find, as lines of\nJSON",
     &run_findings, NULL},
    {"suppress", "FILE", "with --check: file of rules for findings to hide", &run_suppress, NULL},
    {"leaks", NULL, "with --check: list what is still allocated when the program ends", NULL,
     &run_leaks},
    {"possible", NULL, "with --check: also print uncertain findings", NULL, &run_possible},
    {"error-exitcode", "N",
     "the exit code if --check, or the settings poison and canary, find\n"
     "something (default 99)",
     &run_error_code, NULL},
    {"account", NULL,
     "measure what contexts, code, graphs and others take of the device,\n"
     "for `tenure top --by account`",
     NULL, &run_account},
    {"driver", "NAME",
     "cuda, or sim: the program runs on the simulated device,\nif it uses the driver API (cu...), "
     "or the CUDA runtime and is\nbuilt with nvcc -cudart shared; PyTorch, CuPy and cuBLAS need a "
     "GPU",
     &run_driver, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax run_syntax = {
    "run",
    "start a program with Tenure in place of cudaMalloc",
    "[options] [--] PROGRAM [ARGUMENT...]",
    "Tenure serves every allocation call of the CUDA runtime and driver, in the program and in "
    "the\n"
    "programs that it starts: docs/run.md says which. Calls that Tenure cannot serve go to the\n"
    "driver, and a line on stderr says so.\n"
    "Once the program uses a GPU, `tenure top` and `tenure ctl` find it; not with\n"
    "--conf control:off.\n\n"
    "Examples:\n"
    "  tenure run ./program input\n"
    "  tenure run --check -- python train.py\n"
    "  tenure run --waste -- python train.py\n"
    "  tenure run --report memory.html -- ./program --verbose\n"
    "\n"
    "Exit codes: the program's; 2 bad usage; 126 the program cannot be run; 127 not found;\n"
    "99, or what --error-exitcode says, if --check has certain findings, or the settings poison\n"
    "and canary have found something.\n",
    run_options,
    0,
    0,
};

/* ---- the library ---------------------------------------------------------------------------- */

/* Where libtenure_preload.so lies, seen from the folder of the command: where it is installed
 * (TENURE_LIBRARY_DIR comes from the build), in the build tree, and beside the command. */
static const char *const libraries[] = {TENURE_LIBRARY_DIR "/libtenure_preload.so",
                                        "../lib/libtenure_preload.so", "libtenure_preload.so"};

/* ---- the environment ------------------------------------------------------------------------ */

/* A string that grows. It ends with the process. */
typedef struct text {
    char *string;
    size_t length, room;
} text;

static void text_add(text *to, const char *more)
{
    size_t bytes = strlen(more);
    if (to->length + bytes + 1 > to->room) {
        to->room = (to->length + bytes + 1) * 2;
        char *grown = realloc(to->string, to->room);
        if (!grown) {
            fputs("tenure run: no host memory\n", stderr);
            exit(EXIT_CODE_NO_MEMORY);
        }
        to->string = grown;
    }
    memcpy(to->string + to->length, more, bytes + 1);
    to->length += bytes;
}

static void setting_add(text *conf, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    if (conf->length > 0)
        text_add(conf, ",");
    if (key)
        text_add(conf, key);
    text_add(conf, value);
}

/* A path may hold what separates settings: it stands in quotation marks, its own doubled. */
static void setting_add_path(text *conf, const char *key, const char *path)
{
    if (!*path)
        return;
    setting_add(conf, NULL, key);
    text_add(conf, "'");
    for (; *path; path++) {
        char one[] = {*path, *path == '\'' ? '\'' : '\0', '\0'};
        text_add(conf, one);
    }
    text_add(conf, "'");
}

/* The path as seen from any folder: the program may go to another one. */
static void path_absolute(char absolute[PATH_MAX * 2], const char *path)
{
    char folder[PATH_MAX];
    if (path[0] == '/' || !getcwd(folder, sizeof(folder)))
        snprintf(absolute, PATH_MAX * 2, "%s", path);
    else
        snprintf(absolute, PATH_MAX * 2, "%s/%s", folder, path);
}

/* What the library under the program must know before it has read the settings. */
static void environment_record(void)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++)
        if (strcmp(info.key, "auto_record") == 0)
            setenv("TENURE_PRELOAD_RECORD", info.value, 1);
}

/* Control from outside, where it can be had, and what the check needs; then the settings of the
 * environment, then those of the options: later ones win. What the user said is checked here, where
 * the message is seen at once. */
static exit_code environment_conf(const char *snapshot)
{
    text conf = {NULL, 0, 0}, all = {NULL, 0, 0};
    unsetenv("TENURE_PRELOAD_RECORD");
    setting_add(&conf, NULL, getenv("TENURE_CONF"));
    if (run_report && !run_history)
        run_history = "full";
    setting_add(&conf, "history:", run_history);
    setting_add_path(&conf, "snapshot_at_exit:", snapshot);
    setting_add(&conf, NULL, run_conf);
    if (conf.length > 0) {
        tnr_status status = tnr_configure(conf.string);
        if (status != TNR_OK) {
            fprintf(stderr, "tenure run: %s\n", tnr_last_error());
            return exit_code_of(status);
        }
        environment_record();
        run_traps_choose(&traps);
        status = tnr_shutdown(0); /* it was a check: nothing of it holds for this process */
        if (status != TNR_OK)
            return exit_code_of(status);
    }
    setting_add(&all, NULL, "control:try");
    if (run_checked || run_waste) /* an address tells one block, also where one ends */
        setting_add(&all, NULL, "apart:on");
    setting_add(&all, NULL, conf.string);
    setenv("TENURE_CONF", all.string, 1);
    return EXIT_CODE_OK;
}

/* Ours comes first: what it steps aside for goes on to those that were there. */
static void environment_preload(const char *library)
{
    text value = {NULL, 0, 0};
    const char *before = getenv("LD_PRELOAD");
    text_add(&value, library);
    if (before && *before) {
        text_add(&value, ":");
        text_add(&value, before);
    }
    setenv("LD_PRELOAD", value.string, 1);
}

static exit_code environment_make(char library[PATH_MAX], const char *snapshot)
{
    if (beside_find(library, libraries, sizeof(libraries) / sizeof(libraries[0])) != 0) {
        fputs(
            "tenure run: libtenure_preload.so was not found beside this command. Build or install "
            "it again\n",
            stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    if (strpbrk(library, ": ")) {
        fprintf(stderr,
                "tenure run: %s: a library can be preloaded only from a path without "
                "colons and blanks. Install it elsewhere\n",
                library);
        return EXIT_CODE_BAD_INPUT;
    }
    exit_code code = environment_conf(snapshot);
    if (code != EXIT_CODE_OK)
        return code;
    environment_preload(library);
    setenv("NVTX_INJECTION64_PATH", library, 0); /* names of streams; a profiler's comes first */
    if (run_json || run_stats)
        setenv("TENURE_PRELOAD_STATS", run_json ? "json" : "text", 1);
    if (run_strict)
        setenv("TENURE_PRELOAD_STRICT", "1", 1);
    if (run_account)
        setenv("TENURE_PRELOAD_ACCOUNT", "1", 1);
    return EXIT_CODE_OK;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* 1 if the file is an ELF program that no dynamic loader starts: nothing can be put under it. */
static int is_static(const char *path)
{
    int is_elf = 0, has_loader = 0;
    Elf64_Ehdr header;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe: not waited for */
    if (file < 0)
        return 0;
    if (read(file, &header, sizeof(header)) == (ssize_t)sizeof(header))
        is_elf =
            memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64;
    for (int i = 0; is_elf && i < header.e_phnum; i++) {
        Elf64_Phdr part;
        off_t place = (off_t)(header.e_phoff + (Elf64_Off)i * header.e_phentsize);
        if (pread(file, &part, sizeof(part), place) != (ssize_t)sizeof(part))
            is_elf = 0;
        else
            has_loader |= part.p_type == PT_INTERP;
    }
    close(file);
    return is_elf && !has_loader;
}

/* Where execvp will find the program; empty if nowhere. */
static void program_find(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    snprintf(path, PATH_MAX, "%s", name);
    if (strchr(name, '/') || !folders)
        return;
    while (*folders) {
        int length = (int)strcspn(folders, ":");
        snprintf(path, PATH_MAX, "%.*s/%s", length, folders, name);
        if (access(path, X_OK) == 0)
            return;
        folders += length + (folders[length] == ':');
    }
    path[0] = '\0';
}

static exit_code program_check(const char *name)
{
    char path[PATH_MAX];
    program_find(name, path);
    if (path[0] == '\0' || !is_static(path))
        return EXIT_CODE_OK;
    fprintf(stderr,
            "tenure run: %s is linked statically, without a dynamic loader: nothing can be put "
            "under it%s\n",
            name, run_strict ? "" : ", and it runs on its own allocator");
    return run_strict ? (exit_code)EXIT_CANNOT_RUN : EXIT_CODE_OK;
}

/* Why the program cannot be run, and what was probably meant. */
static void program_hint(const char *program, int error)
{
    const char *end = strrchr(program, '.');
    if (end && strcmp(end, ".py") == 0 && access(program, R_OK) == 0)
        fprintf(stderr, "tenure run: %s is a Python script: `tenure run python3 %s`\n", program,
                program);
    else if (error == ENOENT && !strchr(program, '/') && access(program, X_OK) == 0)
        fprintf(stderr, "tenure run: %s is not in PATH; for the file in this folder write ./%s\n",
                program, program);
    else
        fprintf(stderr, "tenure run: %s: %s\n", program, strerror(error));
}

/* Only returns if that failed: with the exit code. */
static int program_execute(char **arguments)
{
    execvp(arguments[0], arguments);
    int error = errno;
    program_hint(arguments[0], error);
    return error == ENOENT || error == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static volatile pid_t child;

/* Hands a signal on, unless the terminal has sent it to the program, too. */
static void signal_forward(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (child == 0 && number != SIGCONT)
        run_check_hurry();
    if (child > 0 && info->si_code != SI_KERNEL)
        kill(child, number);
}

static void signals_watch(void)
{
    static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
    struct sigaction action = {.sa_sigaction = signal_forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        sigaction(forwarded[i], &action, NULL);
}

/* Runs the program and waits for it; its status as waitpid gives it, -1 if it was not started. What
 * its processes left unwritten is written now. */
static int program_wait(char **arguments, const run_journal *journal, const run_check *check)
{
    int status = 0;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* until there is someone to forward to */
    run_check_prepare(check);
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(program_execute(arguments));
    }
    if (child > 0)
        signals_watch();
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child > 0)
        run_traps_follow(&traps);
    if (child < 0) {
        fprintf(stderr, "tenure run: no process for the program: %s\n", strerror(errno));
        return -1;
    }
    run_check_follow(check);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    pid_t ended = child;
    child = 0;
    run_check_wait(check); /* first: what still starts looks for the journal's folder */
    run_journal_end(journal, ended, status);
    return status;
}

/* Ends as the program did. */
static int end_as(int status)
{
    if (status == -1)
        return EXIT_CODE_CHECK_FAILED;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* ---- the report ----------------------------------------------------------------------------- */

static void report_make(char *snapshot, char *findings)
{
    char report[PATH_MAX];
    if (access(snapshot, R_OK) != 0) {
        fprintf(stderr, "tenure run: no report: the program left no snapshot. It used no GPU, or "
                        "was killed\n");
        return;
    }
    snprintf(report, sizeof(report), "%s", run_report);
    char html[] = "html", option[] = "--findings";
    char *arguments[] = {html, snapshot, report, findings ? option : NULL, findings, NULL};
    if (command_snapshot(findings ? 5 : 3, arguments) == EXIT_CODE_OK)
        fprintf(stderr, "tenure run: the report is in %s\n", report);
}

static int run_and_report(char **arguments, const run_journal *journal, const char *snapshot,
                          run_check *check)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof(path), "%s", snapshot);
    unlink(path); /* what is there afterwards is of this run */
    int status = program_wait(arguments, journal, check);
    report_make(path, check->is_wanted ? check->lines : NULL);
    if (!run_snapshot)
        unlink(path);
    return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static exit_code snapshot_path(char path[PATH_MAX * 2], char folder[PATH_MAX])
{
    path[0] = folder[0] = '\0';
    if (run_snapshot) {
        path_absolute(path, run_snapshot);
    } else if (run_report) {
        const char *place = getenv("TMPDIR");
        snprintf(folder, PATH_MAX, "%s/tenure-run-XXXXXX", place && *place ? place : "/tmp");
        if (!mkdtemp(folder)) {
            fprintf(stderr, "tenure run: %s: %s\n", folder, strerror(errno));
            return EXIT_CODE_CHECK_FAILED;
        }
        snprintf(path, PATH_MAX * 2, "%s/snapshot.json", folder);
    }
    return EXIT_CODE_OK;
}

/* -1: it is no time. */
static int waste_choose(run_check *check)
{
    enum { DAY_MS = 86400000 };
    char *end = NULL;
    long ms = strtol(run_waste_more, &end, 10);
    if (end == run_waste_more || *end != '\0' || ms < 1 || ms > DAY_MS)
        return -1;
    check->idle_ms = ms;
    return 0;
}

/* What the options say of the check; -1 after a message if they do not fit. */
static int check_choose(run_check *check)
{
    char *end = NULL;
    long code = run_error_code ? strtol(run_error_code, &end, 10) : RUN_CHECK_CODE;
    *check = (run_check){.is_wanted = run_checked || run_waste,
                         .is_checked = run_checked,
                         .idle_ms = run_waste ? RUN_WASTE_MS : 0,
                         .has_host = run_check_more != NULL,
                         .has_leaks = run_leaks,
                         .has_possible = run_possible,
                         .is_simulated = run_driver && strcmp(run_driver, "sim") == 0,
                         .found_code = (int)code,
                         .findings = run_findings,
                         .suppress = run_suppress};
    if (run_check_more && strcmp(run_check_more, "host") != 0)
        return cli_usage_error(&run_syntax, "--check=%s: only --check=host is there, or --check",
                               run_check_more);
    if (!run_checked && !run_waste && run_findings)
        return cli_usage_error(&run_syntax, "--findings is for --check, and for --waste");
    if (!run_checked && (run_suppress || run_leaks || run_possible))
        return cli_usage_error(&run_syntax, "--suppress, --leaks and --possible are for --check");
    if (run_checked && run_waste)
        return cli_usage_error(&run_syntax,
                               "--check and --waste are two runs: what the check takes "
                               "would count as time in which memory lies unused");
    if (run_waste_more && waste_choose(check) != 0)
        return cli_usage_error(&run_syntax,
                               "--waste=%s: the shortest time that counts, 1 to 86400000 ms",
                               run_waste_more);
    if (run_error_code && (end == run_error_code || *end != '\0' || code < 0 || code > 255))
        return cli_usage_error(&run_syntax, "--error-exitcode must be 0 to 255, not \"%s\"",
                               run_error_code);
    if (run_driver && !check->is_simulated && strcmp(run_driver, "cuda") != 0)
        return cli_usage_error(&run_syntax, "--driver must be cuda or sim, not \"%s\"", run_driver);
    return EXIT_CODE_OK;
}

/* The exit code of a program that was waited for. */
static int run_end(run_check *check, int status)
{
    int is_trapped = run_traps_end(&traps) > 0;
    int has_findings = run_check_end(check);
    const char *who = !has_findings ? "the traps have"
                      : is_trapped  ? "the check and the traps have"
                                    : "the check has";
    if (run_checked && !has_findings && status != -1 && WIFSIGNALED(status))
        fprintf(stderr,
                "tenure run: the program died of signal %d: the check has not told its sums, and "
                "frees that it had still to judge were not judged\n",
                WTERMSIG(status));
    if (status == -1 || (!has_findings && !is_trapped))
        return end_as(status);
    if (WIFEXITED(status))
        fprintf(stderr, "tenure run: %s findings; the program's exit code was %d\n", who,
                WEXITSTATUS(status));
    else
        fprintf(stderr, "tenure run: %s findings; the program died of signal %d\n", who,
                WTERMSIG(status));
    return check->found_code;
}

/* Starts the program when everything is prepared. */
static int program_run(char **program, run_check *check, const run_journal *journal,
                       const char *snapshot, const char *folder)
{
    if (!run_report && check->folder[0] == '\0' && journal->folder[0] == '\0')
        return program_execute(program);
    int status = run_report ? run_and_report(program, journal, snapshot, check)
                            : program_wait(program, journal, check);
    if (folder[0] != '\0')
        rmdir(folder);
    return run_end(check, status);
}

/* 0 after a message if a file cannot be written there: seen before the program runs, not after.
 * What is there stays as it is. */
static int path_is_writable(const char *option, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = file < 0 ? errno : 0;
    if (file >= 0) {
        close(file);
        unlink(path);
    } else if (error == EEXIST) {
        struct stat there;
        int is_folder = stat(path, &there) == 0 && S_ISDIR(there.st_mode);
        error = is_folder ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    }
    if (error != 0)
        fprintf(stderr, "tenure run: %s %s: %s\n", option, path, strerror(error));
    return error == 0;
}

static exit_code paths_check(void)
{
    if ((run_snapshot && !path_is_writable("--snapshot", run_snapshot)) ||
        (run_report && !path_is_writable("--report", run_report)))
        return EXIT_CODE_BAD_INPUT;
    return EXIT_CODE_OK;
}

/* What is kept for the case that the program dies. */
static exit_code journal_begin_for(run_journal *journal, const run_check *check,
                                   const char *snapshot)
{
    *journal = (run_journal){
        .is_wanted = snapshot[0] != '\0' || run_stats || run_json || check->is_checked,
        .has_stacks = check->is_checked || (run_history && strcmp(run_history, "full") == 0),
        .snapshot = snapshot,
        .has_stats = run_stats || run_json,
        .is_json = run_json,
    };
    return run_journal_begin(journal);
}

int command_run(int argc, char **argv)
{
    static run_check check;
    static run_journal journal;
    cli_result parsed;
    char snapshot[PATH_MAX * 2], folder[PATH_MAX], library[PATH_MAX];
    int place = cli_options_end(&run_syntax, argc, argv);
    int is_apart = place < argc && strcmp(argv[place], "--") == 0;
    char **program = argv + place + is_apart;
    if (cli_parse(&run_syntax, place, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if (program >= argv + argc)
        return cli_usage_error(&run_syntax, "no program: give it after the options");
    if (run_history && strcmp(run_history, "off") != 0 && strcmp(run_history, "light") != 0 &&
        strcmp(run_history, "full") != 0)
        return cli_usage_error(&run_syntax, "--history must be off, light or full, not \"%s\"",
                               run_history);
    if (check_choose(&check) != EXIT_CODE_OK)
        return EXIT_CODE_BAD_INPUT;
    exit_code code = program_check(program[0]);
    if (code == EXIT_CODE_OK)
        code = paths_check();
    if (code == EXIT_CODE_OK)
        code = snapshot_path(snapshot, folder);
    if (code == EXIT_CODE_OK)
        code = environment_make(library, snapshot);
    if (code == EXIT_CODE_OK && run_error_code && !run_checked && !traps.is_wanted)
        return cli_usage_error(&run_syntax, "--error-exitcode is for --check, and for the settings "
                                            "poison and canary");
    check.has_traps = traps.is_wanted;
    if (code == EXIT_CODE_OK)
        code = run_check_begin(&check);
    if (code == EXIT_CODE_OK && traps.is_wanted)
        code = run_traps_begin(&traps, check.folder);
    if (code == EXIT_CODE_OK)
        code = journal_begin_for(&journal, &check, snapshot);
    if (code != EXIT_CODE_OK)
        return code;
    if (run_checked || run_waste)
        run_python_begin();
    return program_run(program, &check, &journal, snapshot, folder);
}
