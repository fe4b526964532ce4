/* json_array.c - see json_array.h.
 *
 * The walk keeps one struct level for each depth of arrays. The first child at a level tells
 * whether its arrays hold numbers or rows, and the first array that closes there tells how many.
 * Any later difference makes the whole array ragged. That is noted once, for the first row at
 * fault, and reading goes on: only the field that takes the array knows whether ragged rows are a
 * fault. */
#include "text/json_array.h"

#include "text/json_numbers.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum child_kind { CHILD_UNKNOWN, CHILD_LEAF, CHILD_ROW };

struct level {
    enum child_kind kind; /* of the first child seen in an array at this level */
    int64_t extent;       /* children of the first array that closed at this level; -1: none yet */
    int64_t count;        /* children so far of the array that is open */
    size_t offset;        /* of the '[' of the array that is open */
};

struct walk {
    struct json_scan *scan;
    struct json_numbers *numbers;
    int depth_of_root; /* containers around the outermost array */
    int level;         /* of the innermost open array; -1 when all are closed */
    int level_count;   /* levels seen so far */
    struct level levels[JSON_DEPTH_MAX];
};

/* Notes that the row to which the first ragged_depth indices lead is at fault. */
static void note_ragged(struct walk *walk, int ragged_depth, const char *message)
{
    struct json_numbers *numbers = walk->numbers;
    if (numbers->ragged_depth > 0)
        return;
    if (ragged_depth > JSON_RANK_MAX)
        ragged_depth = JSON_RANK_MAX;
    numbers->ragged_depth = ragged_depth;
    for (int i = 0; i < ragged_depth; i++)
        numbers->ragged_index[i] = walk->levels[i].count - 1;
    snprintf(numbers->ragged_message, sizeof numbers->ragged_message, "%s", message);
}

/* Counts a child of the innermost array and checks that it is of the same kind as the others. */
static inline void add_child(struct walk *walk, enum child_kind kind)
{
    struct level *level = &walk->levels[walk->level];
    level->count++;
    if (level->kind == kind)
        return;
    if (level->kind == CHILD_UNKNOWN) {
        level->kind = kind;
    } else {
        note_ragged(walk, walk->level + 1,
                    kind == CHILD_LEAF ? "is a number where the others are rows"
                                       : "is a row where the others are numbers");
    }
}

static bool open_array(struct walk *walk)
{
    struct json_scan *scan = walk->scan;
    if (walk->level >= 0)
        add_child(walk, CHILD_ROW);
    if (walk->depth_of_root + walk->level + 1 >= JSON_DEPTH_MAX) {
        json_scan_fail(scan, scan->p, "nested deeper than 64");
        return false;
    }
    walk->level++;
    walk->numbers->is_deep = walk->numbers->is_deep || walk->level == JSON_RANK_MAX;
    struct level *level = &walk->levels[walk->level];
    if (walk->level == walk->level_count) {
        level->kind = CHILD_UNKNOWN;
        level->extent = -1;
        walk->level_count++;
    }
    level->count = 0;
    level->offset = (size_t)(scan->p - scan->text);
    scan->p++;
    return true;
}

static void close_array(struct walk *walk)
{
    const struct level *closed = &walk->levels[walk->level];
    walk->scan->p++;
    if (closed->extent < 0) {
        walk->levels[walk->level].extent = closed->count;
    } else if (closed->extent != closed->count) {
        char message[sizeof walk->numbers->ragged_message];
        const char *what = closed->kind == CHILD_ROW ? "rows" : "columns";
        const int used =
            snprintf(message, sizeof message, "has %" PRId64 " %s; row 0", closed->count, what);
        snprintf(message + used, sizeof message - (size_t)used, "%s has %" PRId64,
                 walk->level > 1 ? " of the first" : "", closed->extent);
        note_ragged(walk, walk->level, message);
    }
    walk->level--;
}

/* Notes that there is an element of a kind, and where the first one is. */
static void note_first(const struct json_numbers *numbers, bool *has, int64_t *first)
{
    if (!*has)
        *first = numbers->count;
    *has = true;
}

/* Reads a number, true, false or null; c is its first character. */
static bool read_leaf(struct walk *walk, char c, float *value)
{
    struct json_scan *scan = walk->scan;
    struct json_numbers *numbers = walk->numbers;
    if (c == 't' || c == 'f' || c == 'n') {
        *value = c == 't' ? 1.0f : c == 'f' ? 0.0f : -INFINITY;
        if (!json_scan_literal(scan))
            return false;
        if (c == 'n')
            note_first(numbers, &numbers->has_null, &numbers->first_null);
        else
            note_first(numbers, &numbers->has_bool, &numbers->first_bool);
        return true;
    }
    if (c != '-' && c != 'N' && c != 'I' && !json_scan_is_digit(c))
        return json_scan_expected(scan, "a value");
    const char *after = json_read_float(scan->p, scan->end, value);
    if (after)
        scan->p = after;
    else if (!json_scan_nonfinite(scan, value))
        return json_scan_bad_number(scan);
    note_first(numbers, &numbers->has_number, &numbers->first_number);
    if (!isfinite(*value) && numbers->nonfinite_index < 0)
        numbers->nonfinite_index = numbers->count;
    return true;
}

/* Reads one leaf, or as many numbers at once as the quick reader takes. */
static bool read_leaves(struct walk *walk, char c)
{
    struct json_scan *scan = walk->scan;
    struct json_numbers *numbers = walk->numbers;
    float *values = &numbers->values[numbers->count];
    int64_t count = 0;
    if (c == '-' || json_scan_is_digit(c))
        count = (int64_t)json_read_floats(scan->text, &scan->p, scan->end, values);
    if (count > 0) {
        note_first(numbers, &numbers->has_number, &numbers->first_number);
    } else {
        if (!read_leaf(walk, c, values))
            return false;
        count = 1;
    }
    numbers->count += count;
    add_child(walk, CHILD_LEAF);
    walk->levels[walk->level].count += count - 1;
    return true;
}

/* Enters all open arrays as plain. */
static void enter_plain(const struct walk *walk, struct json_plain_arrays *plain)
{
    for (int i = 0; i <= walk->level; i++)
        plain->offset[walk->depth_of_root + i] = walk->levels[i].offset;
}

static void set_shape(struct walk *walk)
{
    struct json_numbers *numbers = walk->numbers;
    numbers->rank = walk->level_count < JSON_RANK_MAX ? walk->level_count : JSON_RANK_MAX;
    for (int i = 0; i < numbers->rank; i++)
        numbers->shape[i] = walk->levels[i].extent;
}

/* Reads from the outermost '[' to behind its ']'. */
static enum json_array_kind walk_arrays(struct walk *walk)
{
    struct json_scan *scan = walk->scan;
    bool opened = false; /* the last token is a '[', so a ']' may follow */
    do {
        const char c = json_scan_peek(scan);
        if (c == '[') {
            if (!open_array(walk))
                return JSON_ARRAY_FAULT;
            opened = true;
        } else if (c == '"' || c == '{') {
            return JSON_ARRAY_PLAIN;
        } else {
            if (!read_leaves(walk, c))
                return JSON_ARRAY_FAULT;
            opened = false;
        }
        json_scan_space(scan);
        if (opened && json_scan_peek(scan) != ']')
            continue;
        while (walk->level >= 0 && json_scan_peek(scan) == ']') {
            close_array(walk);
            json_scan_space(scan);
        }
        if (walk->level < 0)
            break;
        if (json_scan_peek(scan) != ',') {
            json_scan_expected(scan, "',' or ']'");
            return JSON_ARRAY_FAULT;
        }
        scan->p++;
        json_scan_space(scan);
    } while (true);
    return JSON_ARRAY_NUMBERS;
}

enum json_array_kind json_array_read(struct json_scan *scan, int depth, float *values,
                                     struct json_numbers *numbers, struct json_plain_arrays *plain)
{
    const char *begin = scan->p;
    assert(json_scan_peek(scan) == '[');
    struct walk walk; /* a level is set when it is reached, so that small arrays cost little */
    walk.scan = scan;
    walk.numbers = numbers;
    walk.depth_of_root = depth;
    walk.level = -1;
    walk.level_count = 0;
    *numbers = (struct json_numbers){ .values = values,
                                      .offset = (size_t)(begin - scan->text),
                                      .nonfinite_index = -1 };
    const enum json_array_kind kind = walk_arrays(&walk);
    if (kind == JSON_ARRAY_NUMBERS)
        set_shape(&walk);
    if (kind == JSON_ARRAY_PLAIN) {
        enter_plain(&walk, plain);
        scan->p = begin;
    }
    return kind;
}
