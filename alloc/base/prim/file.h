/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the system: files. */
#ifndef TNRI_BASE_PRIM_FILE_H
#define TNRI_BASE_PRIM_FILE_H

void tnri_file_close(int file);

/* A path from the root without symbolic links; `real` has room for TNRI_PATH_BYTES. 0: there is no
 * such file. */
int tnri_path_real(const char *path, char *real);

#endif
