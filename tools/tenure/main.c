/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `tenure` command: finds the subcommand and hands over.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/alloc.h>
#include <tenure_commit.h>

#include "cli.h"
#include "commands.h"
#include "exit_code.h"

static const cli_command commands[] = {
    {"doctor", command_doctor, "which driver, devices and settings are in force; what is missing"},
    {"conf", command_conf, "all settings of TENURE_CONF with their values and meaning"},
    {"run", command_run, "start a program with Tenure in place of cudaMalloc"},
    {"ctl", command_ctl, "control running processes: status, metrics, sleep, wake, limit"},
    {"top", command_top, "watch what a running process holds"},
    {"hold", command_hold, "keep published blocks for other processes: from files, or taken over"},
    {"replay", command_replay, "run recorded allocation traces and check the memory"},
    {"predict", command_predict, "will it fit: what a recorded program needs on other devices"},
    {"bench", command_bench, "time allocation beside the driver's pool and PyTorch"},
    {"fuzz", command_fuzz, "random programs on the simulated device, checked"},
    {"snapshot", command_snapshot, "look at snapshots: summary, diff, convert, trace, html"},
    {"explain", command_explain, "which block an address is in, was in, or lies beside"},
    {"manual", command_manual, "manual pages, and completions for bash, zsh and fish"},
    {NULL, NULL, NULL},
};

/* A snapshot's command without `snapshot`; a file for a command. */
static int command_hint(const char *typed)
{
    if (snapshot_is_command(typed)) {
        fprintf(stderr, "Did you mean `tenure snapshot %s`?\n", typed);
        return 1;
    }
    struct stat file;
    if (stat(typed, &file) != 0 || !S_ISREG(file.st_mode))
        return 0;
    if (access(typed, X_OK) == 0)
        fprintf(stderr, "To run it: `tenure run %s%s`.\n", strchr(typed, '/') ? "" : "./", typed);
    else
        fprintf(stderr, "To look at a snapshot: `tenure snapshot summary %s`.\n", typed);
    return 1;
}

const cli_group tenure_commands = {
    "tenure",
    "GPU memory, allocated and accounted for",
    "       tenure --version\n",
    "Environment:\n"
    "  TENURE_DRIVER  cuda, sim, or a path: the driver library to use\n"
    "  TENURE_CONF    settings, \"key:value,key:value\": see `tenure conf`\n"
    "  NO_COLOR       set to anything: no colours\n"
    "\n"
    "Exit codes:\n"
    "  0  success\n"
    "  1  a check failed: wrong patterns, leaked blocks, broken invariants, driver errors\n"
    "  2  bad usage or bad input: options, trace files, snapshots, settings\n"
    "  3  no driver, a driver that is too old, or no suitable device\n"
    "  4  out of memory, on the device or on the host, or a limit was reached\n"
    "  10 to 13  of fuzz: safety, liveness, a crash, a planted error that was missed\n"
    "  20 to 23  of ctl and top: no process, several, another protocol, no answer in time\n",
    commands,
    command_hint,
};

static void version_print(void)
{
    unsigned library = tnr_version();
    printf("tenure %d.%d.%d (%s), library %u.%u.%u\n", TNR_VERSION_MAJOR, TNR_VERSION_MINOR,
           TNR_VERSION_PATCH, TNR_COMMIT, library / 10000, library / 100 % 100, library % 100);
}

static int version_is_asked(const char *word)
{
    return strcmp(word, "--version") == 0 || strcmp(word, "version") == 0 ||
           strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0;
}

int main(int argc, char **argv)
{
    int place = 1;
    char help[] = "--help";
    char *asked[] = {NULL, help, NULL};
    if (argc > 1 && version_is_asked(argv[1])) {
        version_print();
        return EXIT_CODE_OK;
    }
    /* "help X" is "X --help", and "help" is "--help". */
    if (argc > 1 && strcmp(argv[1], "help") == 0) {
        asked[0] = argc > 2 ? argv[2] : help;
        argv = asked;
        argc = argc > 2 ? 2 : 1;
        place = 0;
    }
    int code = cli_group_run(&tenure_commands, argc - place, argv + place);
    /* Output that could not be written (a full disk, a closed pipe) must not look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_CODE_OK) {
        fprintf(stderr, "tenure: the output could not be written\n");
        code = EXIT_CODE_CHECK_FAILED;
    }
    return code;
}
