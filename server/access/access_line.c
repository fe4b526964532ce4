/* access_line.c - see access_line.h.
 *
 *     name  sha256-of-key  scopes  [limits]
 *
 * Words are apart by blanks and tabs. Behind the hash a word with a '=' is a limit; any other is a
 * list of scopes apart by commas, or of models' patterns behind "infer:".
 *
 * Somebody may put a key where its hash belongs, or into another column. So messages show a word
 * only where it is no name and no hash, and only its first characters. */
#include "access/access_line.h"

#include "base/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SHOWN = 120, WORD_SHOWN = 20, WORD_BYTES = 64, PATTERN_MAX = 128 };

struct word {
    const char *text;
    size_t size;
};

bool access_line_fault(const struct access_line *line, const char *at, struct fault *fault,
                       const char *format, ...)
{
    char message[FAULT_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fault_set(fault, FAULT_OPTION, "%.*s:%d:%td: %s", PATH_SHOWN, line->path, line->number,
                     at - line->text + 1, message);
}

/* ------------------------------------------------------------------ words -- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word at or behind `from`; an empty one at the end of the line. */
static struct word next_word(const struct access_line *line, const char *from)
{
    const char *end = line->text + line->size;
    while (from < end && is_blank(*from))
        from++;
    const char *p = from;
    while (p < end && !is_blank(*p))
        p++;
    return (struct word){ from, (size_t)(p - from) };
}

/* Copies a word as a string, cut to WORD_BYTES: no name that is looked for is as long. */
static const char *copy_word(char out[WORD_BYTES], struct word word)
{
    snprintf(out, WORD_BYTES, "%.*s", (int)word.size, word.text);
    return out;
}

/* The beginning of a word, to be shown. */
static const char *show_word(char out[WORD_SHOWN], struct word word)
{
    return name_show(out, WORD_SHOWN, word.text, word.size);
}

/* One byte, to be shown. */
static const char *show_byte(char out[WORD_BYTES], char byte)
{
    const unsigned char c = (unsigned char)byte;
    if (c > 0x20 && c < 0x7F)
        snprintf(out, WORD_BYTES, "'%c'", c);
    else
        snprintf(out, WORD_BYTES, "the byte 0x%02X", c);
    return out;
}

static bool is_name_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("._-", c));
}

enum { NO_DIGIT = 16 };

/* The value of a hexadecimal digit; NO_DIGIT: it is none. */
static unsigned hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : NO_DIGIT;
}

/* ---------------------------------------------------------- name and hash -- */

static bool read_name(const struct access_line *line, struct word word, struct access_key *key,
                      struct fault *fault)
{
    char shown[WORD_BYTES];
    for (size_t i = 0; i < word.size; i++)
        if (!is_name_character(word.text[i]))
            return access_line_fault(
                line, word.text + i, fault,
                "%s came in a name; expected letters, digits, '.', '_' and '-'",
                show_byte(shown, word.text[i]));
    if (word.size > ACCESS_NAME_MAX)
        return access_line_fault(line, word.text, fault,
                                 "a name of %zu characters came; expected 1 to %d", word.size,
                                 ACCESS_NAME_MAX);
    memcpy(key->name, word.text, word.size);
    return true;
}

static bool read_hash(const struct access_line *line, struct word word, struct access_key *key,
                      struct fault *fault)
{
    static const char expected[] = "expected the key's SHA-256 as 64 hexadecimal digits, or -";
    char shown[WORD_BYTES];
    if (word.size == 0)
        return access_line_fault(line, word.text, fault, "the line ends; %s", expected);
    if (word.size == 1 && word.text[0] == '-')
        return true;
    for (size_t i = 0; i < word.size; i++)
        if (hex_digit(word.text[i]) == NO_DIGIT)
            return access_line_fault(line, word.text + i, fault, "%s came in a hash; %s",
                                     show_byte(shown, word.text[i]), expected);
    if (word.size != 2 * (size_t)ACCESS_HASH_BYTES)
        return access_line_fault(line, word.text, fault, "%zu hexadecimal digits came; %s",
                                 word.size, expected);
    for (size_t i = 0; i < ACCESS_HASH_BYTES; i++)
        key->hash[i] =
            (unsigned char)(hex_digit(word.text[2 * i]) << 4 | hex_digit(word.text[2 * i + 1]));
    key->has_hash = true;
    return true;
}

/* ----------------------------------------------------------------- scopes -- */

/* The patterns of a line as they are collected. */
struct patterns {
    char *text; /* room for all that the line may have; NULL: no pattern has come */
    size_t used;
    bool has_all; /* "infer" without patterns came */
};

static bool add_pattern(const struct access_line *line, struct word item, struct patterns *patterns,
                        struct fault *fault)
{
    char shown[WORD_BYTES];
    if (item.size == 0 || item.size > PATTERN_MAX)
        return access_line_fault(
            line, item.text, fault,
            "a pattern of %zu characters came; expected 1 to %d, as in infer:model-a,team-*",
            item.size, PATTERN_MAX);
    for (size_t i = 0; i < item.size; i++)
        if (!is_name_character(item.text[i])
            && (item.text[i] == '\0' || !strchr("+()@~*", item.text[i])))
            return access_line_fault(line, item.text + i, fault,
                                     "%s came in a pattern of models; expected letters, digits, "
                                     ". _ - + ( ) @ ~ and *, which also stands for a space",
                                     show_byte(shown, item.text[i]));
    /* Each pattern takes one byte more than in the line at the most, and so does the end. */
    if (!patterns->text && !(patterns->text = calloc(1, line->size + 2)))
        return fault_no_memory(fault);
    memcpy(patterns->text + patterns->used, item.text, item.size);
    patterns->used += item.size + 1;
    return true;
}

static bool refuse_scope(const struct access_line *line, struct word item, struct fault *fault)
{
    char copy[WORD_BYTES], shown[WORD_SHOWN];
    const char *near = access_scope_nearest(copy_word(copy, item));
    if (near)
        return access_line_fault(line, item.text, fault,
                                 "there is no scope '%s'; the nearest is %s",
                                 show_word(shown, item), near);
    return access_line_fault(line, item.text, fault, "'%s' came; expected a scope: %s",
                             show_word(shown, item), access_scope_names());
}

/* Reads one item of a list of scopes. *is_pattern: the item before was a pattern; then this one is
 * a pattern too, unless it is a scope's name. */
static bool read_item(const struct access_line *line, struct word item, struct access_key *key,
                      struct patterns *patterns, bool *is_pattern, struct fault *fault)
{
    static const char infer[] = "infer:";
    const size_t infer_size = sizeof infer - 1;
    char copy[WORD_BYTES];
    const enum access_scope scope = access_scope_find(copy_word(copy, item));
    if (scope != ACCESS_OPEN) {
        *is_pattern = false;
        key->scopes |= 1u << scope;
        patterns->has_all |= scope == ACCESS_INFER;
        return true;
    }
    if (item.size >= infer_size && memcmp(item.text, infer, infer_size) == 0) {
        *is_pattern = true;
        key->scopes |= 1u << ACCESS_INFER;
        item = (struct word){ item.text + infer_size, item.size - infer_size };
    }
    return *is_pattern ? add_pattern(line, item, patterns, fault) : refuse_scope(line, item, fault);
}

static bool read_scopes(const struct access_line *line, struct word word, struct access_key *key,
                        struct patterns *patterns, struct fault *fault)
{
    const char *p = word.text, *end = word.text + word.size;
    bool is_pattern = false;
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const struct word item = { p, (size_t)((comma ? comma : end) - p) };
        if (!read_item(line, item, key, patterns, &is_pattern, fault))
            return false;
        if (!comma)
            return true;
        p = comma + 1;
    }
}

/* ----------------------------------------------------------------- limits -- */

/* The limits of a line that came, as bits, and the word of each. */
struct given {
    const char *at[ACCESS_LIMIT_COUNT]; /* NULL: it did not come */
};

static bool refuse_limit(const struct access_line *line, struct word name, struct fault *fault)
{
    char copy[WORD_BYTES], shown[WORD_SHOWN], names[FAULT_MESSAGE_MAX / 2];
    const char *near = access_limit_nearest(copy_word(copy, name));
    if (near)
        return access_line_fault(line, name.text, fault,
                                 "there is no limit '%s'; the nearest is %s",
                                 show_word(shown, name), near);
    access_limit_names(names, sizeof names);
    return access_line_fault(line, name.text, fault, "there is no limit '%s'; expected %s",
                             show_word(shown, name), names);
}

static bool read_limit(const struct access_line *line, struct word word,
                       struct access_limits *limits, struct given *given, struct fault *fault)
{
    char copy[WORD_BYTES], text[ACCESS_LINE_BYTES_MAX + 1];
    struct fault reason;
    const char *equals = memchr(word.text, '=', word.size);
    const struct word name = { word.text, (size_t)(equals - word.text) };
    const struct word value = { equals + 1, word.size - name.size - 1 };
    const int limit = access_limit_find(copy_word(copy, name));
    if (limit < 0)
        return refuse_limit(line, name, fault);
    if (given->at[limit])
        return access_line_fault(line, name.text, fault, "%s came twice; expected it once",
                                 access_limit_name(limit));
    given->at[limit] = name.text;
    snprintf(text, sizeof text, "%.*s", (int)value.size, value.text);
    return access_limit_set(limits, limit, text, &reason)
           || access_line_fault(line, value.text, fault, "%s", reason.message);
}

/* A burst is that of the budget, so it needs one. */
static bool settle_limits(const struct access_line *line, struct access_limits *limits,
                          const struct given *given, struct fault *fault)
{
    const char *burst = given->at[access_limit_find("burst")];
    if (burst && limits->cpu == 0)
        return access_line_fault(line, burst, fault,
                                 "burst came without cpu; expected cpu=NUMBER beside it");
    access_limits_settle(limits);
    return true;
}

/* ------------------------------------------------------------------- line -- */

static bool read_rest(const struct access_line *line, const char *from, struct access_key *key,
                      struct patterns *patterns, struct fault *fault)
{
    struct given given = { 0 };
    struct word word = next_word(line, from);
    for (; word.size > 0; word = next_word(line, word.text + word.size)) {
        const bool is_limit = memchr(word.text, '=', word.size) != NULL;
        if (is_limit && !read_limit(line, word, &key->limits, &given, fault))
            return false;
        if (!is_limit && !read_scopes(line, word, key, patterns, fault))
            return false;
    }
    if (key->scopes == 0)
        return access_line_fault(line, word.text, fault,
                                 "the line ends without a scope; expected %s",
                                 access_scope_names());
    return settle_limits(line, &key->limits, &given, fault);
}

bool access_line_read(const struct access_line *line, struct access_key *key,
                      struct access_line_places *places, struct fault *fault)
{
    struct patterns patterns = { 0 };
    const struct word name = next_word(line, line->text);
    const struct word hash = next_word(line, name.text + name.size);
    *places = (struct access_line_places){ name.text, hash.text };
    key->line = line->number;
    if (!read_name(line, name, key, fault) || !read_hash(line, hash, key, fault))
        return false;
    const bool good = read_rest(line, hash.text + hash.size, key, &patterns, fault);
    if (good && !patterns.has_all) {
        key->patterns = patterns.text;
        patterns.text = NULL;
    }
    free(patterns.text);
    return good;
}
