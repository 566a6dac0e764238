/* SPDX-License-Identifier: Apache-2.0 */
/* A header of the upper room that the lower one may include. */
#define UPSTAIRS_ASKED 4
