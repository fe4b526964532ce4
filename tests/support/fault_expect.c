/* SPDX-License-Identifier: Apache-2.0 */
/* fault_expect.c - see fault_expect.h. */
#include "fault_expect.h"
#include "test.h"

void fault_expect(const char *what, const struct fault *fault, enum fault_code code,
                  const char *words, const char *pointer)
{
    if (fault->code != code || !strstr(fault->message, words)
        || (pointer && strcmp(fault->pointer, pointer) != 0))
        fail_msg("%s: %s '%s' at '%s'; expected %s '%s' at '%s'", what,
                 fault_code_name(fault->code), fault->message, fault->pointer,
                 fault_code_name(code), words, pointer ? pointer : "any place");
}
