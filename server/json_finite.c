/* json_finite.c - numbers that no 64-bit float holds, where a document is kept or taken whole.
 *
 * A reader of fields refuses those of its own fields. What passes a number over, or prints the tree
 * again, would make something else of it without a word: cJSON prints infinity as null. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* One step of a pointer; / and ~ in a key are escaped as RFC 6901 says. */
static void write_step(char step[FAULT_POINTER_MAX], const char *key, int64_t index)
{
    size_t used = 0;
    if (!key) {
        snprintf(step, FAULT_POINTER_MAX, "/%" PRId64, index);
        return;
    }
    step[used++] = '/';
    for (; *key && used + 3 < FAULT_POINTER_MAX; key++) {
        const bool is_escaped = *key == '~' || *key == '/';
        step[used++] = is_escaped ? '~' : *key;
        if (is_escaped)
            step[used++] = *key == '~' ? '0' : '1';
    }
    step[used] = '\0';
}

static bool refuse(const cJSON *node, struct fault *fault)
{
    return fault_set(fault, FAULT_NONFINITE, "%.60s is beyond the range of a 64-bit float",
                     node->string ? node->string : "a number");
}

bool json_check_finite(const struct json_document *document, const cJSON *node, struct fault *fault)
{
    const struct json_numbers *numbers = document ? json_numbers_of(document, node) : NULL;
    char step[FAULT_POINTER_MAX];
    int64_t index = 0;
    if (numbers)
        return numbers->nonfinite_index < 0
               || fault_set(fault, FAULT_NONFINITE,
                            "%.60s has a number beyond the range of a 32-bit float",
                            node->string ? node->string : "an array");
    if (cJSON_IsNumber(node))
        return isfinite(node->valuedouble) || refuse(node, fault);
    for (const cJSON *child = node->child; child; child = child->next, index++)
        if (!json_check_finite(document, child, fault)) {
            write_step(step, cJSON_IsObject(node) ? child->string : NULL, index);
            fault_prefix_pointer(fault, step);
            return false;
        }
    return true;
}
