/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands. Each takes its arguments without its own name and returns an exit code.
 */
#ifndef TENURE_TOOLS_COMMANDS_H
#define TENURE_TOOLS_COMMANDS_H

#include "cli.h"

/* All of them, in the order of the help. */
extern const cli_group tenure_commands;

int command_doctor(int argc, char **argv);
int command_conf(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_predict(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_run(int argc, char **argv);
int command_ctl(int argc, char **argv);
int command_top(int argc, char **argv);
int command_hold(int argc, char **argv);
int command_fuzz(int argc, char **argv);
int command_snapshot(int argc, char **argv);
int snapshot_is_command(const char *word); /* of `tenure snapshot` */
int command_explain(int argc, char **argv);
int command_manual(int argc, char **argv);

/* The help lines of options that several commands have. */
#define OPTION_DRIVER_HELP                                                                         \
    "auto (default): the GPU if there is one, else the\n"                                          \
    "simulated device; cuda; sim; or a path of a driver library.\n"                                \
    "TENURE_DRIVER says the same for every command"
#define OPTION_DEVICE_HELP "number of the device, from 0 (default 0)"
#define OPTION_CONF_HELP "settings, \"key:value,key:value\": see `tenure conf`"
#define OPTION_JSON_HELP "output for programs, on stdout"

#endif
