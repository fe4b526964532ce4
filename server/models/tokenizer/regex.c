/* SPDX-License-Identifier: Apache-2.0 */
/* regex.c - patterns over Oniguruma.
 *
 * What bounds a scan. The engine tries a match at a position, and each time a branch fails it takes
 * the last alternative that it has put on its stack: a retry. It ends a search with an error where
 * the retries pass a limit, but it does not tell how many it needed. So a search begins with a
 * limit of few retries, which nearly all searches keep, and begins again with 16 times as many as
 * long as it does not. The greater limits are charged to the budget of the text (work_limit.h),
 * which all scans of its pieces share; where it is spent, the scan ends with a fault. The result of
 * a search that ends is the same under any limit.
 *
 * A search is one call of the engine, which nothing can stop. So a search of many positions that
 * passes RETRIES_SEARCH ends, and the scan continues by trying one position at a time.
 *
 * Some work takes no retries: what an atomic group, a possessive repeat or a look-around reads
 * ahead of each position. In a long text, a scan of a pattern with such repeats tries one position
 * at a time. Once the positions may have read STEPS_PER_CLOCK bytes, it looks at a clock, whose
 * limit is one for all pieces of the text. Only a pattern made for this purpose comes near it.
 *
 * Memory: an entry of the engine's stack has 40 bytes, and a repeated class leaves one for each
 * character that it takes. */
#include "models/tokenizer/regex.h"

#include "base/clock.h"
#include "base/names.h"
#include "base/utf8.h"
#include "models/tokenizer/unicode.h"

#include <oniguruma.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum {
    RETRIES_FIRST = 256,
    RETRIES_FACTOR = 16,
    RETRIES_SEARCH = 1 << 20,     /* of a search of many positions; some milliseconds */
    RETRIES_MATCH_MAX = 10000000, /* at one position; the engine's default, as in the reference */
    STACK_ENTRIES_MAX = 1 << 22,
    PARSE_DEPTH_MAX = 256,
    GROUPS_MAX = 1000,
    CALLS_MAX = 1000000, /* of subexpressions, in one search */
    LONG_TEXT_BYTES = 1 << 13,
    STEPS_PER_CLOCK = 1 << 26, /* positions times the bytes that each may read */
    RETRIES_PER_CLOCK = 1 << 20,
    MATCHING_NS_BYTE = 1000
};
static const int64_t MATCHING_NS = 10000000000; /* of a text, and MATCHING_NS_BYTE for each byte */

struct regex {
    regex_t *compiled;
    bool reads_ahead; /* without retries, and any number of bytes */
};

/* What the searches of one scan share. */
struct regex_engine {
    OnigMatchParam *limits;
    OnigRegion region;
};

/* ------------------------------------------------------------- properties -- */

enum {
    CODE_END = 0x110000,
    PROPERTY_COUNT = 19,
    HAN = PROPERTY_COUNT - 1,
    PROPERTY_RANGES_MAX = 1024
};

/* Each Oniguruma has the tables of one version of Unicode, and tokens must be the reference's,
 * whose engine has Unicode 16. So the properties of categories, \p{L} or \p{Lu}, and \p{Han} are
 * defined anew in the engine, under the names that patterns use. */
struct property {
    const char *name;
    uint32_t ranges[1 + 2 * PROPERTY_RANGES_MAX]; /* count, then first and last of each */
};

/* A name is a category, or the first letter of several. Categories that are the same in all
 * versions from 14 on are left to the engine, which takes no more than 20 properties. */
static struct property PROPERTIES[PROPERTY_COUNT] = {
    { .name = "L" },  { .name = "Lu" }, { .name = "Ll" }, { .name = "Lm" },  { .name = "Lo" },
    { .name = "M" },  { .name = "Mn" }, { .name = "Mc" }, { .name = "N" },   { .name = "Nd" },
    { .name = "P" },  { .name = "Pd" }, { .name = "Po" }, { .name = "S" },   { .name = "Sm" },
    { .name = "So" }, { .name = "C" },  { .name = "Cn" }, { .name = "Han" },
};

/* Scripts.txt of Unicode 16. */
static const uint32_t HAN_RANGES[] = {
    0x2E80,  0x2E99,  0x2E9B,  0x2EF3,  0x2F00,  0x2FD5,  0x3005,  0x3005,  0x3007,
    0x3007,  0x3021,  0x3029,  0x3038,  0x303B,  0x3400,  0x4DBF,  0x4E00,  0x9FFF,
    0xF900,  0xFA6D,  0xFA70,  0xFAD9,  0x16FE2, 0x16FE3, 0x16FF0, 0x16FF1, 0x20000,
    0x2A6DF, 0x2A700, 0x2B739, 0x2B740, 0x2B81D, 0x2B820, 0x2CEA1, 0x2CEB0, 0x2EBE0,
    0x2EBF0, 0x2EE5D, 0x2F800, 0x2FA1D, 0x30000, 0x3134A, 0x31350, 0x323AF
};

static bool has_category(const char *name, const char *category)
{
    return name[0] == category[0] && (!name[1] || name[1] == category[1]);
}

/* Appends a character that is behind all others. */
static void add_code(uint32_t *ranges, uint32_t code)
{
    uint32_t *last = &ranges[2 * (size_t)ranges[0]];
    if (ranges[0] > 0 && *last + 1 == code) {
        *last = code;
    } else if (ranges[0] < PROPERTY_RANGES_MAX) {
        last[1] = last[2] = code;
        ranges[0]++;
    }
}

/* Takes some milliseconds, once. */
static void make_properties(void)
{
    for (uint32_t code = 0; code < CODE_END; code++) {
        const char *category = unicode_category(code);
        for (int i = 0; i < HAN; i++)
            if (has_category(PROPERTIES[i].name, category))
                add_code(PROPERTIES[i].ranges, code);
    }
    PROPERTIES[HAN].ranges[0] = sizeof HAN_RANGES / sizeof *HAN_RANGES / 2;
    memcpy(PROPERTIES[HAN].ranges + 1, HAN_RANGES, sizeof HAN_RANGES);
}

/* --------------------------------------------------------------- patterns -- */

static once_flag started = ONCE_FLAG_INIT;
static bool has_properties; /* false: there was no memory for them */

static void start_engine(void)
{
    OnigEncoding encodings[] = { ONIG_ENCODING_UTF8 };
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(PARSE_DEPTH_MAX);
    onig_set_capture_num_limit(GROUPS_MAX);
    onig_set_subexp_call_limit_in_search(CALLS_MAX);
    make_properties();
    has_properties = true;
    for (int i = 0; i < PROPERTY_COUNT; i++)
        has_properties &=
            onig_unicode_define_user_property(PROPERTIES[i].name, PROPERTIES[i].ranges)
            == ONIG_NORMAL;
}

static bool pattern_fault(const char *pattern, size_t size, int code, OnigErrorInfo *info,
                          struct fault *fault)
{
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
    const int message_size = onig_error_code_to_str(message, code, info);
    char shown[64];
    return fault_set(fault, FAULT_OPTION, "the pattern \"%s\" is no regular expression: %.*s",
                     name_show(shown, sizeof(shown), pattern, size), message_size, message);
}

static bool is_repeat(char c)
{
    return c == '*' || c == '+' || c == '}';
}

/* Whether a pattern may have an atomic group, a possessive repeat, or a look-around with a repeat
 * in it. Looks at the characters alone, and says yes where it is not sure. */
static bool may_read_ahead(const char *pattern, size_t size)
{
    static const char KINDS[] = { '=', '!', '<', '>', '~' };
    bool is_in_group = false; /* (?=, (?!, (?<, (?>, or (?~ */
    for (size_t i = 0; i < size; i++) {
        if (size - i > 2 && pattern[i] == '(' && pattern[i + 1] == '?')
            is_in_group = is_in_group || memchr(KINDS, pattern[i + 2], sizeof KINDS);
        else if (is_repeat(pattern[i]) && (is_in_group || (i + 1 < size && pattern[i + 1] == '+')))
            return true;
        else if (pattern[i] == ')')
            is_in_group = false;
    }
    return false;
}

bool regex_create(struct regex **regex, const char *pattern, size_t size, struct fault *fault)
{
    *regex = NULL;
    if (size > REGEX_PATTERN_BYTES_MAX)
        return fault_set(fault, FAULT_OPTION,
                         "a regular expression has %zu bytes; at most %d are taken", size,
                         REGEX_PATTERN_BYTES_MAX);
    call_once(&started, start_engine);

    struct regex *made = has_properties ? calloc(1, sizeof(*made)) : NULL;
    if (!made)
        return fault_no_memory(fault);
    const OnigUChar *begin = (const OnigUChar *)pattern;
    OnigErrorInfo info = { 0 };
    const int code = onig_new(&made->compiled, begin, begin + size, ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
    if (code != ONIG_NORMAL) {
        free(made);
        return code == ONIGERR_MEMORY ? fault_no_memory(fault)
                                      : pattern_fault(pattern, size, code, &info, fault);
    }
    made->reads_ahead = may_read_ahead(pattern, size);
    *regex = made;
    return true;
}

void regex_free(struct regex *regex)
{
    if (!regex)
        return;
    onig_free(regex->compiled);
    free(regex);
}

/* ------------------------------------------------------------------- scans -- */

void regex_scan_init(struct regex_scan *scan, const struct regex *regex, const char *text,
                     int64_t size, struct work_limit *limit)
{
    *scan = (struct regex_scan){ .regex = regex, .limit = limit };
    regex_scan_restart(scan, text, size);
}

void regex_scan_restart(struct regex_scan *scan, const char *text, int64_t size)
{
    scan->text = text;
    scan->size = size;
    scan->at = 0;
    scan->last_end = -1;
    scan->limit->retries += WORK_LIMIT_RETRIES_BYTE * size;
}

void regex_scan_free(struct regex_scan *scan)
{
    if (!scan->engine)
        return;
    if (scan->engine->limits)
        onig_free_match_param(scan->engine->limits);
    onig_region_free(&scan->engine->region, 0);
    free(scan->engine);
    scan->engine = NULL;
}

/* NULL: not enough memory. */
static struct regex_engine *make_engine(void)
{
    struct regex_engine *engine = calloc(1, sizeof(*engine));
    OnigMatchParam *limits = onig_new_match_param();
    if (!engine || !limits) {
        free(engine);
        free(limits);
        return NULL;
    }
    onig_region_init(&engine->region);
    onig_set_match_stack_limit_size_of_match_param(limits, STACK_ENTRIES_MAX);
    onig_set_retry_limit_in_match_of_match_param(limits, RETRIES_MATCH_MAX);
    onig_set_retry_limit_in_search_of_match_param(limits, RETRIES_FIRST);
    engine->limits = limits;
    return engine;
}

/* The result is the position of the match, or an error of the engine. */
static int search_once(const struct regex_scan *scan, int64_t from, bool only_there)
{
    const OnigUChar *text = (const OnigUChar *)scan->text;
    struct regex_engine *engine = scan->engine;
    if (!only_there)
        return onig_search_with_param(scan->regex->compiled, text, text + scan->size, text + from,
                                      text + scan->size, &engine->region, ONIG_OPTION_NONE,
                                      engine->limits);
    const int size =
        onig_match_with_param(scan->regex->compiled, text, text + scan->size, text + from,
                              &engine->region, ONIG_OPTION_NONE, engine->limits);
    return size >= 0 ? (int)from : size;
}

/* Whether the patterns of the text have time left. */
static bool has_time(const struct regex_scan *scan)
{
    struct work_limit *limit = scan->limit;
    const int64_t now = clock_read_ns(CLOCK_MONOTONIC_COARSE);
    if (limit->matching_ends_ns == 0)
        limit->matching_ends_ns = now + MATCHING_NS + MATCHING_NS_BYTE * limit->text_bytes;
    return now < limit->matching_ends_ns && work_limit_ask(limit);
}

/* Searches with greater and greater limits, as far as the budget goes. */
static int search_from(struct regex_scan *scan, int64_t from, bool only_there)
{
    int found = search_once(scan, from, only_there);
    struct work_limit *limit = scan->limit;
    const int64_t most = only_there ? limit->retries : RETRIES_SEARCH;
    for (int64_t retries = RETRIES_FIRST;
         found == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER && retries < most && limit->retries > 0;) {
        retries *= RETRIES_FACTOR;
        if (retries > limit->retries)
            retries = limit->retries;
        limit->retries -= retries;
        limit->hard_retries += retries;
        if (limit->hard_retries >= RETRIES_PER_CLOCK) {
            limit->hard_retries = 0;
            if (!has_time(scan))
                break;
        }
        onig_set_retry_limit_in_search_of_match_param(scan->engine->limits, (unsigned long)retries);
        found = search_once(scan, from, only_there);
    }
    onig_set_retry_limit_in_search_of_match_param(scan->engine->limits, RETRIES_FIRST);
    return found;
}

/* Notes how many positions were tried. False: the patterns of the text take too long. */
static bool note_positions(struct regex_scan *scan, int64_t count)
{
    struct work_limit *limit = scan->limit;
    limit->read_bytes += count * scan->size;
    if (limit->read_bytes < STEPS_PER_CLOCK)
        return true;
    limit->read_bytes = 0;
    return has_time(scan);
}

/* How far the scan goes on behind an empty match, or a position without one: over one character, or
 * past the text's end. */
static int64_t step_size(const struct regex_scan *scan, int64_t at)
{
    const size_t size = utf8_character_size(scan->text + at, (size_t)(scan->size - at));
    return size > 0 ? (int64_t)size : 1;
}

static bool too_long(const struct regex_scan *scan, struct fault *fault)
{
    return scan->limit->is_stopped
               ? work_limit_fault(fault)
               : fault_set(
                   fault, FAULT_LENGTH,
                   "a regular expression of the model's tokenizer takes too long on this text");
}

static bool search(struct regex_scan *scan, bool *is_found, struct fault *fault)
{
    bool stepwise = scan->regex->reads_ahead && scan->size > LONG_TEXT_BYTES;
    int found = ONIG_MISMATCH;
    int64_t from = scan->at;
    do {
        found = search_from(scan, from, stepwise);
        if (found == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER && !stepwise) {
            stepwise = true;
            found = search_from(scan, from, true);
        }
        if (found == ONIGERR_MEMORY)
            return fault_no_memory(fault);
        const int64_t end = stepwise ? from + 1 : found < 0 ? scan->size + 1 : found + 1;
        if ((found < 0 && found != ONIG_MISMATCH)
            || (scan->regex->reads_ahead && !note_positions(scan, end - from))
            || !work_limit_spend(scan->limit, end - from))
            return too_long(scan, fault);
        from += step_size(scan, from);
    } while (found < 0 && stepwise && from <= scan->size);
    *is_found = found >= 0;
    return true;
}

bool regex_scan_next(struct regex_scan *scan, bool *found, int64_t *start, int64_t *end,
                     struct fault *fault)
{
    *found = false;
    if (!scan->engine && !(scan->engine = make_engine()))
        return fault_no_memory(fault);
    while (scan->at <= scan->size) {
        if (!search(scan, found, fault))
            return false;
        if (!*found)
            return true;
        *start = scan->engine->region.beg[0];
        *end = scan->engine->region.end[0];
        if (*start == *end && *end == scan->last_end) {
            scan->at = *end + step_size(scan, *end);
            continue;
        }
        scan->at = scan->last_end = *end;
        return true;
    }
    *found = false;
    return true;
}
