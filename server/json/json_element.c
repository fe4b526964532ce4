/* SPDX-License-Identifier: Apache-2.0 */
/* json_element.c - what nodes of the tree are, and checks of its keys, numbers and arrays. */
#include "json/json_element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- nodes -- */

const struct json_numbers *json_numbers_of(const struct json_document *document, const cJSON *node)
{
    static const struct json_numbers EMPTY = { .rank = 1, .nonfinite_index = -1 };
    if (!cJSON_IsArray(node))
        return NULL;
    const cJSON *child = node->child;
    if (!child)
        return &EMPTY;
    if (child->next || !cJSON_IsNumber(child))
        return NULL;
    /* A plain array has a string or an object in it; so the only number of this one is an index. */
    const int64_t index = (int64_t)child->valuedouble;
    if (index < 0 || index >= document->array_count)
        return NULL;
    return &document->arrays[index];
}

bool json_whole(const cJSON *node, uint64_t *value)
{
    const double number = cJSON_IsNumber(node) ? node->valuedouble : -1;
    if (!(number >= 0 && number < 9007199254740992.0) || number != (double)(uint64_t)number)
        return false;
    *value = (uint64_t)number;
    return true;
}

const char *json_kind(const struct json_document *document, const cJSON *node)
{
    return document && json_numbers_of(document, node) ? "an array of numbers"
           : cJSON_IsArray(node)                       ? "an array"
           : cJSON_IsObject(node)                      ? "an object"
           : cJSON_IsString(node)                      ? "a string"
           : cJSON_IsBool(node)                        ? "a boolean"
           : cJSON_IsNumber(node)                      ? "a number"
                                                       : "null";
}

bool json_string_read(const char *string, struct arena *arena, struct byte_slice *bytes)
{
    const char *nul = strstr(string, JSON_STRING_NUL);
    *bytes = (struct byte_slice){ string, strlen(string) };
    if (!nul)
        return true;
    char *copy = arena_alloc(arena, bytes->size);
    if (!copy)
        return false;
    char *end = copy;
    for (; nul; nul = strstr(string, JSON_STRING_NUL)) {
        const size_t size = (size_t)(nul - string);
        memcpy(end, string, size);
        end += size;
        *end++ = '\0';
        string = nul + sizeof JSON_STRING_NUL - 1;
    }
    const size_t rest = strlen(string);
    memcpy(end, string, rest);
    *bytes = (struct byte_slice){ copy, (size_t)(end - copy) + rest };
    return true;
}

/* --------------------------------------------------------------------- keys -- */

/* cJSON keeps both of two equal keys and answers with the first; other parsers take the last. A
 * request that says two things is refused, because either guess may be wrong. The check works on
 * the tree, where keys are already decoded. A few keys are compared each with each; many are sorted
 * first, so that no object costs more than n log n comparisons. */
enum { KEYS_COMPARED_EACH_MAX = 16 };

/* The path from the root to a node, last step first. */
struct step {
    const struct step *parent;
    const char *key; /* NULL: the step is an index of an array */
    int64_t index;
};

struct pointer_text {
    char bytes[FAULT_POINTER_MAX];
    size_t used;
    bool full; /* a step had no room; the pointer names the value that encloses the rest */
};

/* Appends "/" and the key, escaped as RFC 6901 says, whole or not at all. */
static void append_key(struct pointer_text *pointer, const char *key)
{
    const size_t used = fault_pointer_append(pointer->bytes, pointer->used, key);
    pointer->full = used == pointer->used;
    pointer->used = used;
}

static void append_steps(struct pointer_text *pointer, const struct step *step)
{
    if (!step)
        return;
    append_steps(pointer, step->parent);
    if (pointer->full || pointer->used + 24 > sizeof pointer->bytes) {
        pointer->full = true;
    } else if (step->key) {
        append_key(pointer, step->key);
    } else {
        pointer->used +=
            (size_t)snprintf(pointer->bytes + pointer->used, sizeof pointer->bytes - pointer->used,
                             "/%lld", (long long)step->index);
    }
}

static bool refuse_twice(const struct step *parent, const char *key, struct fault *fault)
{
    const struct step last = { .parent = parent, .key = key };
    struct pointer_text pointer = { .used = 0 };
    append_steps(&pointer, &last);
    return fault_set_at(fault, pointer.bytes, FAULT_DUPLICATE, "an object has this key twice: %s",
                        key);
}

static const cJSON *find_twice_among_few(const cJSON *object)
{
    for (const cJSON *a = object->child; a; a = a->next)
        for (const cJSON *b = object->child; b != a; b = b->next)
            if (strcmp(a->string, b->string) == 0)
                return a;
    return NULL;
}

static int compare_keys(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

/* Sets *twice to a key that stands twice, if there is one. False: no memory. */
static bool find_twice_among_many(const cJSON *object, size_t count, const cJSON **twice)
{
    const cJSON **keys = malloc(count * sizeof(const cJSON *));
    if (!keys)
        return false;
    size_t used = 0;
    for (const cJSON *child = object->child; child; child = child->next)
        keys[used++] = child;
    qsort(keys, used, sizeof(const cJSON *), compare_keys);
    for (size_t i = 1; i < used && !*twice; i++)
        if (strcmp(keys[i - 1]->string, keys[i]->string) == 0)
            *twice = keys[i];
    free(keys);
    return true;
}

static bool check_keys(const cJSON *node, const struct step *parent, struct fault *fault)
{
    size_t count = 0;
    const bool object = cJSON_IsObject(node);
    for (const cJSON *child = node->child; child; child = child->next) {
        const struct step step = { .parent = parent,
                                   .key = object ? child->string : NULL,
                                   .index = (int64_t)count++ };
        if (child->child && !check_keys(child, &step, fault))
            return false;
    }
    if (!object)
        return true;
    const cJSON *twice = NULL;
    if (count <= KEYS_COMPARED_EACH_MAX)
        twice = find_twice_among_few(node);
    else if (!find_twice_among_many(node, count, &twice))
        return fault_no_memory(fault);
    return !twice || refuse_twice(parent, twice->string, fault);
}

bool json_check_duplicates(const cJSON *root, struct fault *fault)
{
    return check_keys(root, NULL, fault);
}

/* -------------------------------------- numbers beyond the range of a float -- */

/* A reader of fields refuses numbers that no 64-bit float holds in the fields that it knows. Code
 * that skips a number, or prints the tree again, would change the number without a word: cJSON
 * prints infinity as null. */

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

static bool refuse_infinite(const cJSON *node, struct fault *fault)
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
        return isfinite(node->valuedouble) || refuse_infinite(node, fault);
    for (const cJSON *child = node->child; child; child = child->next, index++)
        if (!json_check_finite(document, child, fault)) {
            prefix_step(fault, cJSON_IsObject(node) ? child->string : NULL, index);
            return false;
        }
    return true;
}

/* ------------------------------------------------------- elements of arrays -- */

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
