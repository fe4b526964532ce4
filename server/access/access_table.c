/* SPDX-License-Identifier: Apache-2.0 */
/* access_table.c - reads lines into keys, and finds a key by its secret or its name. */
#include "access/access_table.h"

#include "base/grow.h"
#include "base/names.h"

#include <gnutls/gnutls.h>

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ lines -- */

/* Name  sha256-of-key  scopes  [limits]
 *
 * Words are apart by blanks and tabs. Behind the hash a word with a '=' is a limit; any other is a
 * list of scopes apart by commas, or of models' patterns behind "infer:".
 *
 * Somebody may put a key where its hash belongs, or into another column. So messages show a word
 * only where it is no name and no hash, and only its first characters. */

enum { PATH_SHOWN = 120, WORD_SHOWN = 20, WORD_BYTES = 64, PATTERN_MAX = 128 };

struct word {
    const char *text;
    size_t size;
};

/* Sets a fault "path:line:column: message" for the byte at `at`; columns count bytes from 1.
 * Returns false. A message never holds what may be a secret. */
__attribute__((format(printf, 4, 5))) static bool access_line_fault(const struct access_line *line,
                                                                    const char *at,
                                                                    struct fault *fault,
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

/* ------------------------------------------------------------------ trees -- */

static int compare_names(const void *a, const void *b)
{
    const struct access_key *first = a, *second = b;
    return strcmp(first->name, second->name);
}

static int compare_hashes(const void *a, const void *b)
{
    const struct access_key *first = a, *second = b;
    return memcmp(first->hash, second->hash, ACCESS_HASH_BYTES);
}

static void free_nothing(void *key)
{
    (void)key;
}

/* Puts a key into a tree. Returns the key of the tree that is equal, which is the new one where
 * there was none; NULL: no memory. */
static struct access_key *put(void **tree, struct access_key *key,
                              int (*compare)(const void *, const void *))
{
    struct access_key **place = tsearch(key, tree, compare);
    return place ? *place : NULL;
}

/* ---------------------------------------------------------------- reading -- */

struct reader {
    struct access_table *table;
    struct access_accounts *accounts;
    void *by_hash; /* a tree of the keys that have a hash */
};

/* Adds a key, and takes it over, also where that fails. */
static bool add(struct reader *reader, struct access_key *key, struct fault *fault)
{
    struct access_table *table = reader->table;
    struct access_key **keys =
        array_with_room(table->keys, table->count, &table->capacity, sizeof(struct access_key *));
    if (!keys) {
        access_key_release(key);
        return fault_no_memory(fault);
    }
    table->keys = keys;
    keys[table->count++] = key;
    key->account = access_accounts_hold(reader->accounts, key->name);
    return key->account || fault_no_memory(fault);
}

/* Refuses a name or hash that an earlier line has. */
static bool check_unique(struct reader *reader, const struct access_line *line,
                         struct access_key *key, const struct access_line_places *places,
                         struct fault *fault)
{
    const struct access_key *same = put(&reader->table->by_name, key, compare_names);
    if (!same)
        return fault_no_memory(fault);
    if (same != key)
        return access_line_fault(line, places->name, fault,
                                 "the name '%s' came in line %d already; expected another",
                                 key->name, same->line);
    if (!key->has_hash)
        return true;
    same = put(&reader->by_hash, key, compare_hashes);
    if (!same)
        return fault_no_memory(fault);
    return same == key
           || access_line_fault(line, places->hash, fault,
                                "the hash came in line %d already, of '%s'; expected another key",
                                same->line, same->name);
}

static bool read_key(struct reader *reader, const struct access_line *line, struct fault *fault)
{
    struct access_line_places places;
    if (reader->table->count == ACCESS_KEYS_MAX)
        return access_line_fault(line, line->text, fault, "more than %d keys came",
                                 ACCESS_KEYS_MAX);
    struct access_key *key = access_key_create();
    if (!key)
        return fault_no_memory(fault);
    if (!access_line_read(line, key, &places, fault)) {
        access_key_release(key);
        return false;
    }
    return add(reader, key, fault) && check_unique(reader, line, key, &places, fault);
}

/* Bytes that no text has, such as those of UTF-16 or of a line that ends with CR alone: what looks
 * like a comment could then hide keys. */
static bool check_bytes(const struct access_line *line, struct fault *fault)
{
    if (line->size > ACCESS_LINE_BYTES_MAX)
        return access_line_fault(line, line->text + ACCESS_LINE_BYTES_MAX, fault,
                                 "a line of %zu bytes came; expected at most %d", line->size,
                                 ACCESS_LINE_BYTES_MAX);
    for (size_t i = 0; i < line->size; i++) {
        const unsigned char byte = (unsigned char)line->text[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7F)
            return access_line_fault(line, line->text + i, fault,
                                     "the byte 0x%02X came; expected text", byte);
    }
    return true;
}

static bool read_line(struct reader *reader, struct access_line *line, struct fault *fault)
{
    if (!check_bytes(line, fault))
        return false;
    const char *comment = memchr(line->text, '#', line->size);
    if (comment)
        line->size = (size_t)(comment - line->text);
    for (size_t i = 0; i < line->size; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t')
            return read_key(reader, line, fault);
    return true;
}

static bool read_text(struct reader *reader, const char *path, const char *text, size_t size,
                      struct fault *fault)
{
    if (size == 0)
        return true; /* text may be NULL */
    const char *end = text + size;
    for (int number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *next = newline ? newline + 1 : end;
        const char *line_end = newline ? newline : end;
        if (line_end > text && line_end[-1] == '\r')
            line_end--;
        struct access_line line = { path, number, text, (size_t)(line_end - text) };
        if (!read_line(reader, &line, fault))
            return false;
        text = next;
    }
    return true;
}

/* Puts all hashes into one array, so that a search goes through memory in order. */
static bool gather_hashes(struct access_table *table, struct fault *fault)
{
    const size_t room = (size_t)table->count + 1;
    table->hashes = calloc(room, sizeof *table->hashes);
    table->hashed = calloc(room, sizeof(struct access_key *));
    if (!table->hashes || !table->hashed)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < table->count; i++) {
        if (!table->keys[i]->has_hash)
            continue;
        memcpy(table->hashes[table->hash_count], table->keys[i]->hash, ACCESS_HASH_BYTES);
        table->hashed[table->hash_count++] = table->keys[i];
    }
    return true;
}

bool access_table_create(struct access_table **table, const char *path, const char *text,
                         size_t size, struct access_accounts *accounts, struct fault *fault)
{
    struct reader reader = { .table = calloc(1, sizeof **table), .accounts = accounts };
    *table = NULL;
    if (!reader.table)
        return fault_no_memory(fault);
    const bool good =
        read_text(&reader, path, text, size, fault) && gather_hashes(reader.table, fault);
    tdestroy(reader.by_hash, free_nothing);
    if (good)
        *table = reader.table;
    else
        access_table_free(reader.table);
    return good;
}

void access_table_free(struct access_table *table)
{
    if (!table)
        return;
    tdestroy(table->by_name, free_nothing);
    for (int64_t i = 0; i < table->count; i++)
        access_key_release(table->keys[i]);
    free(table->keys);
    free(table->hashes);
    free(table->hashed);
    free(table);
}

/* ---------------------------------------------------------------- finding -- */

struct access_key *access_table_find(const struct access_table *table, const char *secret,
                                     size_t size)
{
    unsigned char hash[ACCESS_HASH_BYTES];
    size_t found = 0; /* the number of the key that is equal, from 1 */
    if (!access_secret_hash(secret, size, hash))
        return NULL;
    /* No branch depends on the outcome. No two hashes are equal, so at most one is added. */
    for (int64_t i = 0; i < table->hash_count; i++) {
        const size_t is_equal = gnutls_memcmp(hash, table->hashes[i], sizeof hash) == 0;
        found |= (0 - is_equal) & (size_t)(i + 1);
    }
    return found > 0 ? table->hashed[found - 1] : NULL;
}

struct access_key *access_table_find_name(const struct access_table *table, const char *name)
{
    struct access_key wanted = { .name = "" };
    const size_t length = strlen(name);
    if (length > ACCESS_NAME_MAX)
        return NULL;
    memcpy(wanted.name, name, length);
    struct access_key *const *place = tfind(&wanted, &table->by_name, compare_names);
    return place ? *place : NULL;
}
