/* json_duplicates.c - see json_duplicates.h.
 *
 * cJSON keeps both of two equal keys and answers with the first; other parsers take the last. A
 * request that says two things is refused, because either guess may be wrong. The check works on
 * the tree, where keys are already decoded. A few keys are compared each with each; many are sorted
 * first, so that no object costs more than n log n comparisons. */
#include "text/json_duplicates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool fail(const struct step *parent, const char *key, struct fault *fault)
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

static bool check(const cJSON *node, const struct step *parent, struct fault *fault)
{
    size_t count = 0;
    const bool object = cJSON_IsObject(node);
    for (const cJSON *child = node->child; child; child = child->next) {
        const struct step step = { .parent = parent,
                                   .key = object ? child->string : NULL,
                                   .index = (int64_t)count++ };
        if (child->child && !check(child, &step, fault))
            return false;
    }
    if (!object)
        return true;
    const cJSON *twice = NULL;
    if (count <= KEYS_COMPARED_EACH_MAX)
        twice = find_twice_among_few(node);
    else if (!find_twice_among_many(node, count, &twice))
        return fault_no_memory(fault);
    return !twice || fail(parent, twice->string, fault);
}

bool json_duplicates_check(const cJSON *root, struct fault *fault)
{
    return check(root, NULL, fault);
}
