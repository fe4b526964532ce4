/* json_element.c - see json_element.h. */
#include "text/json_element.h"

#include <inttypes.h>
#include <stdio.h>

enum { INDEX_BYTES_MAX = 21 }; /* of one index in a pointer, with its '/' */

/* What an element was in the text; struct json_numbers keeps only its value. */
static const char *kind_of(const struct json_numbers *numbers, int64_t index)
{
    if (numbers->has_bool && index == numbers->first_bool)
        return numbers->values[index] != 0 ? "true" : "false";
    if (numbers->has_null && index == numbers->first_null)
        return "null";
    return "a number";
}

struct json_element json_element_at(const struct json_numbers *numbers, int64_t index)
{
    struct json_element element = { .kind = kind_of(numbers, index) };
    if (numbers->ragged_depth > 0 || numbers->is_deep)
        return element;
    element.depth = numbers->rank;
    for (int i = numbers->rank - 1; i >= 0; i--) {
        element.index[i] = index % numbers->shape[i];
        index /= numbers->shape[i];
    }
    return element;
}

/* Finds the first string or object in an array that is not an array of numbers. */
static bool find_stray(const struct json_document *document, const cJSON *array,
                       struct json_element *element)
{
    const cJSON *at[JSON_DEPTH_MAX]; /* the current child of each open array */
    *element = (struct json_element){ .depth = 1 };
    at[0] = array->child;
    while (element->depth > 0) {
        const int last = element->depth - 1;
        const cJSON *child = at[last];
        if (!child) { /* the array ends: go on behind it */
            element->depth--;
            if (last > 0) {
                at[last - 1] = at[last - 1]->next;
                element->index[last - 1]++;
            }
        } else if (cJSON_IsString(child) || cJSON_IsObject(child)) {
            element->kind = json_kind(document, child);
            return true;
        } else if (cJSON_IsArray(child) && !json_numbers_of(document, child)
                   && element->depth < JSON_DEPTH_MAX) {
            element->index[element->depth] = 0;
            at[element->depth++] = child->child;
        } else {
            at[last] = child->next;
            element->index[last]++;
        }
    }
    return false;
}

bool json_element_fault(const struct json_place *place, const struct json_element *element,
                        enum fault_code code, const char *format, ...)
{
    char pointer[FAULT_POINTER_MAX + JSON_DEPTH_MAX * INDEX_BYTES_MAX];
    char way[JSON_DEPTH_MAX * (INDEX_BYTES_MAX + 1) + 1] = "", message[FAULT_MESSAGE_MAX];
    size_t used = (size_t)snprintf(pointer, FAULT_POINTER_MAX, "%s", place->pointer), way_used = 0;
    used = used < FAULT_POINTER_MAX ? used : FAULT_POINTER_MAX - 1;
    for (int i = 0; i < element->depth; i++) {
        const int64_t index = element->index[i];
        used += (size_t)snprintf(pointer + used, sizeof pointer - used, "/%" PRId64, index);
        way_used += (size_t)snprintf(way + way_used, sizeof way - way_used, "[%" PRId64 "]", index);
    }
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return fault_set_at(place->fault, pointer, code, "%.60s%s %s", place->name, way, message);
}

static bool refuse_other(const struct json_place *place, const cJSON *node, const char *expected)
{
    struct json_element element;
    if (cJSON_IsArray(node) && find_stray(place->document, node, &element))
        return json_element_fault(place, &element, FAULT_TYPE, "is %s; %.60s takes %s",
                                  element.kind, place->name, expected);
    return fault_set_at(place->fault, place->pointer, FAULT_TYPE, "%.60s is %s; expected %s",
                        place->name, json_kind(place->document, node), expected);
}

static bool refuse_ragged(const struct json_place *place, const struct json_numbers *numbers)
{
    struct json_element row = { .depth = numbers->ragged_depth };
    for (int i = 0; i < row.depth; i++)
        row.index[i] = numbers->ragged_index[i];
    return json_element_fault(place, &row, FAULT_RAGGED, "%s", numbers->ragged_message);
}

static bool refuse_deep(const struct json_place *place)
{
    const struct json_element row = { .depth = JSON_RANK_MAX }; /* the first row at that depth */
    return json_element_fault(place, &row, FAULT_RAGGED,
                              "is a row; no more than %d levels of them are taken",
                              (int)JSON_RANK_MAX);
}

bool json_element_expect_rows(const struct json_place *place, const struct json_numbers *numbers)
{
    if (numbers->ragged_depth > 0)
        return refuse_ragged(place, numbers);
    return !numbers->is_deep || refuse_deep(place);
}

const struct json_numbers *json_element_array(const struct json_place *place, const cJSON *node,
                                              const char *expected, bool may_be_deep)
{
    const struct json_numbers *numbers = json_numbers_of(place->document, node);
    const bool fits = !numbers ? refuse_other(place, node, expected)
                               : (may_be_deep && numbers->ragged_depth == 0)
                                     || json_element_expect_rows(place, numbers);
    return fits ? numbers : NULL;
}

bool json_element_expect_numbers(const struct json_place *place, const struct json_numbers *numbers,
                                 bool null_allowed)
{
    const bool has_null = numbers->has_null && !null_allowed;
    if (!numbers->has_bool && !has_null)
        return true;
    const bool is_null =
        has_null && !(numbers->has_bool && numbers->first_bool < numbers->first_null);
    const struct json_element element =
        json_element_at(numbers, is_null ? numbers->first_null : numbers->first_bool);
    if (element.depth == 0)
        return json_element_fault(place, &element, FAULT_TYPE, "holds %s; expected numbers",
                                  element.kind);
    return json_element_fault(place, &element, FAULT_TYPE, "is %s; expected a number",
                              element.kind);
}

bool json_element_expect_finite(const struct json_place *place, const struct json_numbers *numbers,
                                int64_t nonfinite_index, const char *type)
{
    if (nonfinite_index < 0)
        return true;
    const struct json_element element = json_element_at(numbers, nonfinite_index);
    return json_element_fault(place, &element, FAULT_NONFINITE, "%s beyond the range of %s",
                              element.depth == 0 ? "holds a number that is" : "is", type);
}
