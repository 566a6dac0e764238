/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other libraries of a process may export, made by another compiler or of another C++ library:
 * the program exports it here, so that it comes before everything that the class is linked to. The
 * class must never get there.
 */
#ifndef TENURE_TESTS_TORCH_STRANGERS_H
#define TENURE_TESTS_TORCH_STRANGERS_H

namespace strangers
{

/* From now on calls by the library that has this address end the program. */
void watch(const void *inside);

} // namespace strangers

#endif
