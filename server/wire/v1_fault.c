/* v1_fault.c - see v1_fault.h. */
#include "wire/v1_fault.h"

#include <inttypes.h>
#include <stdio.h>

void v1_fault_write(const struct fault *fault, int64_t index, struct text *text)
{
    char prefix[32];
    struct fault whole = *fault;
    snprintf(prefix, sizeof prefix, "/requests/%" PRId64, index);
    fault_prefix_pointer(&whole, prefix);
    text_raw(text, "{\"error\":");
    text_string(text, whole.message);
    text_raw(text, ",\"code\":");
    text_string(text, fault_code_name(whole.code));
    text_raw(text, ",\"pointer\":");
    text_string(text, whole.pointer);
    text_raw(text, "}");
}
