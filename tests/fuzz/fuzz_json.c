/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_json.c - any bytes to json_read(), with cJSON and a second reading as judges.
 *
 * If json_read() refuses the bytes, the fault must be one that json.h names. If it takes them,
 * cJSON alone must take them too (its grammar is the wider one) and see the same tree, array by
 * array and number by number. Every array, written and read again, must have the same bits. The
 * first byte chooses the options. */
#include "base/utf8.h"
#include "json/json.h"
#include "json/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* cJSON rounds to double first, so its number can be one float away. */
static bool nearly_same(float value, double other)
{
    const float rounded = (float)other;
    return same_bits(value, rounded) || nextafterf(rounded, value) == value;
}

/* Follows the leaves of cJSON's array, row-major; returns the index after them. */
static int64_t compare_leaves(const struct json_numbers *numbers, const cJSON *array, int64_t index)
{
    for (const cJSON *child = array->child; child; child = child->next) {
        if (cJSON_IsArray(child)) {
            index = compare_leaves(numbers, child, index);
            continue;
        }
        require(index < numbers->count);
        const float value = numbers->values[index++];
        if (cJSON_IsBool(child))
            require(value == (cJSON_IsTrue(child) ? 1.0f : 0.0f));
        else if (cJSON_IsNull(child))
            require(value == -INFINITY);
        else
            require(cJSON_IsNumber(child) && nearly_same(value, child->valuedouble));
    }
    return index;
}

static void compare_trees(const struct json_document *document, const cJSON *ours,
                          const cJSON *theirs)
{
    const struct json_numbers *numbers = json_numbers_of(document, ours);
    require((ours->type & 0xFF) == (theirs->type & 0xFF));
    require(!ours->string == !theirs->string);
    require(!ours->string || strcmp(ours->string, theirs->string) == 0);
    if (numbers) {
        require(compare_leaves(numbers, theirs, 0) == numbers->count);
        return;
    }
    if (cJSON_IsString(ours))
        require(strcmp(ours->valuestring, theirs->valuestring) == 0);
    if (cJSON_IsNumber(ours))
        require(memcmp(&ours->valuedouble, &theirs->valuedouble, sizeof(double)) == 0);
    const cJSON *a = ours->child, *b = theirs->child;
    for (; a && b; a = a->next, b = b->next)
        compare_trees(document, a, b);
    require(!a && !b);
}

/* The fields of an array agree with each other, and the array stays the same when it is written
 * and read again. */
static void check_array(const struct json_numbers *numbers)
{
    int64_t product = 1;
    require(numbers->rank >= 1 && numbers->rank <= JSON_RANK_MAX);
    for (int i = 0; i < numbers->rank; i++) {
        require(numbers->shape[i] >= 0);
        product *= numbers->ragged_depth == 0 ? numbers->shape[i] : 1;
    }
    if (numbers->ragged_depth > 0) {
        require(numbers->ragged_depth <= JSON_RANK_MAX && numbers->ragged_message[0]);
        return;
    }
    if (numbers->is_deep)
        return;
    require(product == numbers->count);
    if (numbers->nonfinite_index >= 0 || numbers->has_null)
        return;
    struct text text;
    struct json_document again;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    text_tensor(&text, numbers->values, numbers->rank, numbers->shape);
    require(text_finish(&text, &fault));
    require(json_read(&again, text.data, text.used, &(struct json_options){ 0 }, &fault));
    const struct json_numbers *copy = json_numbers_of(&again, again.root);
    require(copy && copy->count == numbers->count);
    if (numbers->count > 0)
        require(copy->rank == numbers->rank
                && memcmp(copy->values, numbers->values, (size_t)copy->count * sizeof(float)) == 0);
    json_free(&again);
    text_free(&text);
}

static void check_fault(const struct fault *fault)
{
    require(fault->code == FAULT_JSON || fault->code == FAULT_DUPLICATE
            || fault->code == FAULT_TOO_LARGE);
    require(fault->message[0] != '\0');
    require(fault->code == FAULT_DUPLICATE || fault->pointer[0] == '\0');
    for (const char *p = fault->message; *p;) {
        const size_t character = utf8_character_size(p, strlen(p));
        require(character > 0);
        p += character;
    }
}

/* Some versions of cJSON refuse a number of more than 63 bytes: then there is no second opinion. */
static bool has_long_number(const char *text, size_t size)
{
    size_t run = 0;
    for (size_t i = 0; i < size; i++) {
        run = text[i] && strchr("0123456789+-.eE", text[i]) ? run + 1 : 0;
        if (run > 63)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct json_options options = { .nonfinite_allowed = data[0] == 'N' };
    size--;
    char *text = malloc(size > 0 ? size : 1); /* exactly the size, so that a read past it is seen */
    require(text != NULL);
    memcpy(text, data + 1, size);
    struct json_document document;
    struct fault fault = { 0 };
    if (json_read(&document, text, size, &options, &fault)) {
        for (int64_t i = 0; i < document.array_count; i++)
            check_array(&document.arrays[i]);
        if (!options.nonfinite_allowed && !has_long_number(text, size)) {
            cJSON *theirs = cJSON_ParseWithLength(text, size);
            require(theirs != NULL);
            compare_trees(&document, document.root, theirs);
            cJSON_Delete(theirs);
        }
    } else {
        require(!document.root && !document.arrays && !document.values);
        check_fault(&fault);
    }
    json_free(&document);
    free(text);
    return 0;
}
