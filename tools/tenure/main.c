/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `tenure` command: finds the subcommand and hands over.
 */
#include <stdio.h>
#include <string.h>

#include <tenure/alloc.h>
#include <tenure_commit.h>

#include "commands.h"
#include "exit_code.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"doctor", command_doctor, "which driver, devices and settings are in force; what is missing"},
    {"conf", command_conf, "all settings of TENURE_CONF with their values and meaning"},
    {"run", command_run, "start a program with Tenure in place of cudaMalloc"},
    {"ctl", command_ctl, "rule processes from outside: status, sleep, wake, trim, limit, snapshot"},
    {"replay", command_replay, "run recorded allocation traces and check the memory"},
    {"bench", command_bench, "time allocation beside the driver's pool and PyTorch"},
    {"fuzz", command_fuzz, "random programs on the simulated device, checked"},
    {"snapshot", command_snapshot, "look at snapshots: summary, diff, convert, trace, html"},
};

enum { COMMANDS_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void version_print(void)
{
    unsigned library = tnr_version();
    printf("tenure %d.%d.%d (%s), library %u.%u.%u\n", TNR_VERSION_MAJOR, TNR_VERSION_MINOR,
           TNR_VERSION_PATCH, TNR_COMMIT, library / 10000, library / 100 % 100, library % 100);
}

static void help_print(FILE *file)
{
    fputs("tenure: GPU memory, allocated and accounted for\n\n"
          "Usage: tenure COMMAND [options]\n"
          "       tenure COMMAND --help\n"
          "       tenure --version\n\n"
          "Commands:\n",
          file);
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "Environment:\n"
          "  TENURE_DRIVER  cuda, sim, or a path: the driver library to use\n"
          "  TENURE_CONF    settings, \"key:value,key:value\": see `tenure conf`\n"
          "  NO_COLOR       set to anything: no colours\n"
          "\n"
          "Exit codes:\n"
          "  0  all is well\n"
          "  1  a check failed: wrong patterns, leaked blocks, broken invariants, driver errors\n"
          "  2  bad usage or bad input: options, trace files, snapshots, settings\n"
          "  3  no driver, a driver that is too old, or no suitable device\n"
          "  4  out of memory, on the device or on the host, or a limit was reached\n"
          "  10 to 13  of fuzz: safety, liveness, a crash, a planted error that was missed\n"
          "  20 to 23  of ctl: no process, several, another protocol, no answer in time\n",
          file);
}

static const command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        version_print();
        return EXIT_CODE_OK;
    }
    if (strcmp(name, "help") == 0 && argc > 2) {
        const command *asked = command_find(argv[2]);
        char help[] = "--help";
        char *arguments[] = {help, NULL};
        if (asked)
            return asked->run(1, arguments);
        name = argv[2];
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
               strcmp(name, "help") == 0) {
        help_print(stdout);
        return EXIT_CODE_OK;
    }
    const command *chosen = command_find(name);
    if (!chosen) {
        fprintf(stderr, "tenure: there is no command \"%s\". Try `tenure --help`.\n", name);
        return EXIT_CODE_BAD_INPUT;
    }
    int code = chosen->run(argc - 2, argv + 2);
    /* Output that could not be written (a full disk, a closed pipe) must not look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_CODE_OK) {
        fprintf(stderr, "tenure: the output could not be written\n");
        code = EXIT_CODE_CHECK_FAILED;
    }
    return code;
}
