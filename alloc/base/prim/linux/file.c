/* SPDX-License-Identifier: Apache-2.0 */
/* See file.h. */
#include "base/prim/file.h"

#include <stdlib.h>
#include <unistd.h>

void tnri_file_close(int file)
{
    (void)close(file);
}

int tnri_path_real(const char *path, char *real)
{
    return realpath(path, real) != NULL;
}
