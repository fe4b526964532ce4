/* SPDX-License-Identifier: Apache-2.0 */
/* fault_expect.h - a fault that a test expects. */
#ifndef FAULT_EXPECT_H
#define FAULT_EXPECT_H

#include "base/fault.h"

/* Fails the test, which then prints what, unless fault has this code, these words in its message
 * and this pointer. pointer NULL: any pointer is right. */
void fault_expect(const char *what, const struct fault *fault, enum fault_code code,
                  const char *words, const char *pointer);

#endif
