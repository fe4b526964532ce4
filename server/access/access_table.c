/* access_table.c - see access_table.h. */
#include "access/access_table.h"

#include "access/access_line.h"
#include "base/grow.h"

#include <gnutls/gnutls.h>

#include <search.h>
#include <stdlib.h>
#include <string.h>

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
