/* json_finite.c - refuses numbers that no 64-bit float holds, in documents that are kept or taken
 * whole; see json_check_finite() in json.h.
 *
 * A reader of fields refuses such numbers in the fields that it knows. Code that skips a number, or
 * prints the tree again, would change the number without a word: cJSON prints infinity as null. */
#include "text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Puts the step to a child before the pointer. Where the key is too long for a pointer, the pointer
 * becomes that of the enclosing value. */
static void prefix_step(struct fault *fault, const char *key, int64_t index)
{
    char step[FAULT_POINTER_MAX];
    if (!key)
        snprintf(step, sizeof step, "/%" PRId64, index);
    else if (fault_pointer_append(step, 0, key) == 0)
        fault->pointer[0] = '\0';
    fault_prefix_pointer(fault, step);
}

static bool refuse(const cJSON *node, struct fault *fault)
{
    return fault_set(fault, FAULT_NONFINITE, "%.60s is beyond the range of a 64-bit float",
                     node->string ? node->string : "a number");
}

bool json_check_finite(const struct json_document *document, const cJSON *node, struct fault *fault)
{
    const struct json_numbers *numbers = document ? json_numbers_of(document, node) : NULL;
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
            prefix_step(fault, cJSON_IsObject(node) ? child->string : NULL, index);
            return false;
        }
    return true;
}
