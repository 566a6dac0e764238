/* SPDX-License-Identifier: Apache-2.0 */
#include <tenure/lifetime.h>
