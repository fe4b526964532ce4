/* SPDX-License-Identifier: Apache-2.0 */
/* precompiled.c - Precompiled: the rules of a SentencePiece model, as it stores them.
 *
 * The file has them in base64: the size of a double-array trie in bytes, the trie, and texts that
 * end in NUL bytes. The trie leads from the bytes of one or more characters to the offset of their
 * replacement. A unit of the trie has 32 bits: its label in the low 8 (with the top bit, which only
 * leaves have), whether a value hangs below it in bit 8, the offset to its children in bits 10 up,
 * times 256 where bit 9 is set.
 *
 * A grapheme cluster of less than 6 bytes is looked up as a whole, then each of its characters. The
 * look-up takes the shortest prefix that has a replacement, and the whole text that was looked up
 * is replaced: so the reference does it, and so the models were used. */
#include "base/base64.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

#define WHERE "normalizer Precompiled"

enum { CLUSTER_BYTES_MAX = 5 };

struct precompiled {
    const unsigned char *units; /* of the trie, little-endian */
    uint32_t unit_count;
    const char *texts;
    size_t texts_size;
    bool ascii_changes[128];
};

/* ------------------------------------------------------------------ look-up -- */

static uint32_t little_endian(const unsigned char *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool read_unit(const struct precompiled *rules, uint32_t index, uint32_t *unit)
{
    if (index >= rules->unit_count)
        return false;
    *unit = little_endian(rules->units + 4 * (size_t)index);
    return true;
}

static uint32_t children(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static bool find_offset(const struct precompiled *rules, const char *text, uint32_t size,
                        uint32_t *offset)
{
    uint32_t unit, at = 0;
    if (!read_unit(rules, 0, &unit))
        return false;
    at ^= children(unit);
    for (uint32_t i = 0; i < size && text[i] != '\0'; i++) {
        const unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (!read_unit(rules, at, &unit) || (unit & (1u << 31 | 0xFF)) != byte)
            return false;
        at ^= children(unit);
        if (unit >> 8 & 1) {
            if (!read_unit(rules, at, &unit))
                return false;
            *offset = unit & ~(1u << 31);
            return true;
        }
    }
    return false;
}

/* Finds the replacement of a text; false: it stays. */
static bool find(const struct precompiled *rules, const char *text, uint32_t size,
                 struct byte_slice *replacement)
{
    uint32_t offset;
    if (!find_offset(rules, text, size, &offset) || offset >= rules->texts_size
        || ((unsigned char)rules->texts[offset] & 0xC0) == 0x80)
        return false;
    replacement->data = rules->texts + offset;
    replacement->size = strnlen(rules->texts + offset, rules->texts_size - offset);
    return true;
}

/* ----------------------------------------------------------------- rewriting -- */

/* One new character waits, because what is replaced by nothing is charged to the one before it. */
struct rewriting {
    const struct precompiled *rules;
    struct pieces_transform out;
    uint32_t code;
    int64_t change;
    bool waits;
};

static void put(struct rewriting *rewriting, uint32_t code, int64_t change)
{
    if (rewriting->waits)
        pieces_transform_put(&rewriting->out, rewriting->code, rewriting->change);
    rewriting->waits = true;
    rewriting->code = code;
    rewriting->change = change;
}

static void replace(struct rewriting *rewriting, int64_t old_count, struct byte_slice replacement)
{
    const char *text = replacement.data;
    const int64_t new_count = unicode_count(text, replacement.size);
    size_t at = 0;
    for (int64_t i = 0; i < new_count && !rewriting->out.pieces->failed; i++) {
        uint32_t code;
        at += unicode_decode(text + at, &code);
        put(rewriting, code, i >= old_count);
    }
    if (new_count < old_count && rewriting->waits)
        rewriting->change -= old_count - new_count;
}

/* Where the cluster that begins at `at` ends. */
static uint32_t cluster_end(const char *bytes, uint32_t at, uint32_t end)
{
    uint32_t before, after;
    int32_t state = 0;
    at += unicode_decode(bytes + at, &before);
    while (at < end) {
        const uint32_t size = unicode_decode(bytes + at, &after);
        if (unicode_grapheme_ends(before, after, &state))
            break;
        before = after;
        at += size;
    }
    return at;
}

static void rewrite_cluster(struct rewriting *rewriting, const char *bytes, uint32_t at,
                            uint32_t end)
{
    struct byte_slice replacement;
    if (end - at <= CLUSTER_BYTES_MAX
        && find(rewriting->rules, bytes + at, end - at, &replacement)) {
        replace(rewriting, unicode_count(bytes + at, end - at), replacement);
        return;
    }
    while (at < end) {
        uint32_t code;
        const uint32_t size = unicode_decode(bytes + at, &code);
        if (find(rewriting->rules, bytes + at, size, &replacement))
            replace(rewriting, 1, replacement);
        else
            put(rewriting, code, 0);
        at += size;
    }
}

/* ASCII that stays, and is a cluster by itself: ASCII follows, and it is no carriage return. */
static uint32_t plain_end(const struct precompiled *rules, const char *bytes, uint32_t at,
                          uint32_t end)
{
    while (at < end && (unsigned char)bytes[at] < 0x80
           && !rules->ascii_changes[(unsigned char)bytes[at]] && bytes[at] != '\r'
           && (at + 1 == end || (unsigned char)bytes[at + 1] < 0x80))
        at++;
    return at;
}

bool precompiled_rewrite(const void *state, struct pieces *pieces, const struct piece *piece,
                         struct fault *fault)
{
    (void)fault;
    struct rewriting rewriting = { .rules = state, .out = { pieces, piece, piece->start } };
    const char *bytes = pieces->bytes;
    uint32_t at = piece->start;
    while (at < piece->end && !pieces->failed) {
        const uint32_t plain = plain_end(state, bytes, at, piece->end);
        for (; at < plain; at++)
            put(&rewriting, (unsigned char)bytes[at], 0);
        if (at == piece->end)
            break;
        const uint32_t after = cluster_end(bytes, at, piece->end);
        rewrite_cluster(&rewriting, bytes, at, after);
        at = after;
    }
    if (rewriting.waits)
        pieces_transform_put(&rewriting.out, rewriting.code, rewriting.change);
    return true;
}

bool precompiled_changes(const void *state, const struct pieces *pieces, const struct piece *piece)
{
    return plain_end(state, pieces->bytes, piece->start, piece->end) < piece->end;
}

/* ------------------------------------------------------------------- reading -- */

bool precompiled_init(struct pipeline_build *build, const unsigned char *data, size_t size,
                      struct step *step)
{
    struct precompiled *rules = pipeline_alloc(build, 1, sizeof *rules);
    if (!rules)
        return false;
    const uint32_t trie_size = size >= 4 ? little_endian(data) : 0;
    if (size < 8 || trie_size - trie_size % 4 > size - 4 || trie_size < 4)
        return pipeline_fail(build, WHERE, "precompiled_charsmap has no trie of %u bytes",
                             (unsigned)trie_size);
    rules->unit_count = trie_size / 4;
    rules->units = data + 4;
    rules->texts = (const char *)data + 4 + 4 * (size_t)rules->unit_count;
    rules->texts_size = size - 4 - 4 * (size_t)rules->unit_count;
    if (unicode_find_invalid(rules->texts, rules->texts_size) < rules->texts_size)
        return pipeline_fail(build, WHERE, "the texts of precompiled_charsmap are not UTF-8");
    for (int c = 0; c < 128; c++) {
        struct byte_slice ignored;
        const char byte = (char)c;
        rules->ascii_changes[c] = find(rules, &byte, 1, &ignored);
    }
    step->state = rules;
    return true;
}

bool precompiled_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_field FIELD = { STEP_VALUE("precompiled_charsmap", STEP_STRING) };
    struct byte_slice text;
    if (!pipeline_fields(build, node, WHERE, &FIELD, 1, &text))
        return false;
    unsigned char *data = pipeline_alloc(build, text.size / 4 * 3 + 4, 1);
    if (!data)
        return false;
    const int64_t used = base64_decode(text.data, text.size, data);
    if (used < 0)
        return pipeline_fail(build, WHERE, "precompiled_charsmap is not base64");
    return precompiled_init(build, data, (size_t)used, step);
}
