/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure fuzz` without the rest of the command, which a row of the tests would be built for:
 *
 *   fuzz_alone fuzz [options]
 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "fuzz") != 0) {
        fputs("usage: fuzz_alone fuzz [options]; --help has the options\n", stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    return command_fuzz(argc - 2, argv + 2);
}
