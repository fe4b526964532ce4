/* SPDX-License-Identifier: Apache-2.0 */
/* normal_form.c - the four normal forms of Unicode.
 *
 * Most characters are stable: they stay as they are, and nothing before them reaches past them. A
 * segment begins at a stable character, holds the unstable ones behind it, and is decomposed,
 * ordered and composed by itself; all other characters are copied. The reference counts for each
 * new character how many old ones it replaces, and composing adds these counts up. */
#include "models/tokenizer/normalizer.h"

#include "models/tokenizer/unicode.h"

#include <string.h>

const struct normal_form NORMAL_FORM_NFC = { .composed = true };
const struct normal_form NORMAL_FORM_NFD = { .composed = false };
const struct normal_form NORMAL_FORM_NFKC = { .compatible = true, .composed = true };
const struct normal_form NORMAL_FORM_NFKD = { .compatible = true };

struct element {
    uint32_t code;
    int32_t change; /* see struct pieces_transform */
    uint8_t combining_class;
};

struct forming {
    struct pieces *pieces;
    const struct normal_form *form;
    struct element *elements, *sorted; /* of a segment, of the same capacity */
    int64_t count, capacity;
};

/* --------------------------------------------------------------- stability -- */

static bool is_stable(const struct normal_form *form, uint32_t code)
{
    if (code < 0xA0 || (code < 0xC0 && !form->compatible))
        return true;
    if (code < 0x300 && form->composed && !form->compatible)
        return true;
    if (unicode_combining_class(code) != 0 || (form->composed && unicode_composes_behind(code)))
        return false;
    uint32_t parts[UNICODE_DECOMPOSED_MAX];
    const size_t count = unicode_decompose(code, form->compatible, parts);
    if (count == 1)
        return parts[0] == code;
    if (!form->composed || unicode_combining_class(parts[0]) != 0)
        return false;
    uint32_t composite = parts[0];
    for (size_t i = 1; i < count && composite != 0; i++)
        composite = unicode_compose(composite, parts[i]);
    return composite == code;
}

/* ---------------------------------------------------------------- segments -- */

static bool reserve(struct forming *forming, int64_t more)
{
    if (forming->count + more <= forming->capacity)
        return true;
    const int64_t capacity = 2 * (forming->count + more) + 64;
    struct element *elements =
        arena_alloc(forming->pieces->arena, 2 * (size_t)capacity * sizeof *elements);
    if (!elements) {
        forming->pieces->failed = true;
        return false;
    }
    if (forming->count > 0)
        memcpy(elements, forming->elements, (size_t)forming->count * sizeof *elements);
    forming->elements = elements;
    forming->sorted = elements + capacity;
    forming->capacity = capacity;
    return true;
}

static bool decompose(struct forming *forming, uint32_t start, uint32_t end)
{
    forming->count = 0;
    for (uint32_t at = start; at < end;) {
        uint32_t code, parts[UNICODE_DECOMPOSED_MAX];
        at += unicode_decode(forming->pieces->bytes + at, &code);
        const size_t count = unicode_decompose(code, forming->form->compatible, parts);
        if (!reserve(forming, (int64_t)count))
            return false;
        for (size_t i = 0; i < count; i++)
            forming->elements[forming->count++] =
                (struct element){ parts[i], i > 0, unicode_combining_class(parts[i]) };
    }
    return true;
}

/* Orders the marks [first, end) by class, and within a class as they come, by counting. */
static void order_marks(struct forming *forming, int64_t first, int64_t end)
{
    struct element *elements = forming->elements;
    bool is_ordered = true;
    for (int64_t i = first + 1; i < end; i++)
        is_ordered &= elements[i - 1].combining_class <= elements[i].combining_class;
    if (is_ordered)
        return;
    int64_t places[257] = { 0 };
    for (int64_t i = first; i < end; i++)
        places[elements[i].combining_class + 1]++;
    for (int class = 1; class <= 256; class ++)
        places[class] += places[class - 1];
    for (int64_t i = first; i < end; i++)
        forming->sorted[places[elements[i].combining_class]++] = elements[i];
    memcpy(elements + first, forming->sorted, (size_t)(end - first) * sizeof *elements);
}

static void order(struct forming *forming)
{
    int64_t first = 0;
    for (int64_t i = 0; i <= forming->count; i++)
        if (i == forming->count || forming->elements[i].combining_class == 0) {
            order_marks(forming, first, i);
            first = i + 1;
        }
}

static void put(struct pieces_transform *out, const struct element *element)
{
    pieces_transform_put(out, element->code, element->change);
}

/* A starter, and the marks behind it that did not compose with it. */
struct composing {
    struct pieces_transform *out;
    struct element *marks;
    int64_t mark_count;
    struct element starter;
    bool has_starter;
    int last_class; /* of the marks; -1: there are none */
};

static void flush(struct composing *composing)
{
    if (composing->has_starter)
        put(composing->out, &composing->starter);
    for (int64_t i = 0; i < composing->mark_count; i++)
        put(composing->out, &composing->marks[i]);
    composing->mark_count = 0;
    composing->last_class = -1;
}

static void compose_next(struct composing *composing, const struct element *next)
{
    if (!composing->has_starter) {
        composing->has_starter = next->combining_class == 0;
        composing->starter = *next;
        if (!composing->has_starter)
            put(composing->out, next);
        return;
    }
    const bool is_blocked =
        composing->last_class >= 0 && composing->last_class >= next->combining_class;
    const uint32_t composite =
        is_blocked ? 0 : unicode_compose(composing->starter.code, next->code);
    if (composite != 0) {
        composing->starter.code = composite;
        composing->starter.change += next->change - 1;
    } else if (next->combining_class == 0) {
        flush(composing);
        composing->starter = *next;
    } else {
        composing->marks[composing->mark_count++] = *next;
        composing->last_class = next->combining_class;
    }
}

static void form_segment(struct forming *forming, struct pieces_transform *out, uint32_t end)
{
    if (!decompose(forming, out->at, end))
        return;
    order(forming);
    if (!forming->form->composed) {
        for (int64_t i = 0; i < forming->count; i++)
            put(out, &forming->elements[i]);
        return;
    }
    struct composing composing = { .out = out, .marks = forming->sorted, .last_class = -1 };
    for (int64_t i = 0; i < forming->count; i++)
        compose_next(&composing, &forming->elements[i]);
    flush(&composing);
}

/* The first unstable character from `at` on; *before is where the stable one before it begins. */
static uint32_t find_unstable(const struct normal_form *form, const char *bytes, uint32_t at,
                              uint32_t end, uint32_t *before)
{
    *before = at;
    while (at < end) {
        uint32_t code;
        const uint32_t size = unicode_decode(bytes + at, &code);
        if (!is_stable(form, code))
            return at;
        *before = at;
        at += size;
    }
    return end;
}

static uint32_t find_stable(const struct normal_form *form, const char *bytes, uint32_t at,
                            uint32_t end)
{
    while (at < end) {
        uint32_t code;
        const uint32_t size = unicode_decode(bytes + at, &code);
        if (is_stable(form, code))
            return at;
        at += size;
    }
    return end;
}

/* The elements are kept from piece to piece. */
static bool form_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                       struct fault *fault)
{
    (void)fault;
    struct forming *forming = *(struct forming *const *)state;
    struct pieces_transform out = { pieces, piece, piece->start };
    while (out.at < piece->end && !pieces->failed) {
        uint32_t before;
        const uint32_t unstable =
            find_unstable(forming->form, pieces->bytes, out.at, piece->end, &before);
        if (unstable == piece->end) {
            pieces_transform_copy(&out, piece->end);
            break;
        }
        pieces_transform_copy(&out, before);
        form_segment(forming, &out,
                     find_stable(forming->form, pieces->bytes, unstable, piece->end));
    }
    return true;
}

static bool has_unstable(const void *state, const struct pieces *pieces, const struct piece *piece)
{
    const struct forming *forming = *(struct forming *const *)state;
    uint32_t before;
    return find_unstable(forming->form, pieces->bytes, piece->start, piece->end, &before)
           < piece->end;
}

bool normal_form_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    struct forming forming = { .pieces = pieces, .form = state }, *shared = &forming;
    return pieces_rewrite(pieces, has_unstable, form_piece, &shared, fault);
}
