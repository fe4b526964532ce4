/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_keys.c - any bytes as the text of a keys' file.
 *
 * Text that is taken, written key by key and read again, gives the same keys. Text that is refused
 * leaves nothing behind, and the fault names a line and column that the text has. */
#include "access/access_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* The caller frees the text. */
static struct text written(const struct access_table *table)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    for (int64_t i = 0; i < table->count; i++) {
        access_key_write(table->keys[i], &text);
        text_raw(&text, "\n");
    }
    require(text.failed == FAULT_NONE);
    return text;
}

static void check_keys(const struct access_table *table)
{
    for (int64_t i = 0; i < table->count; i++) {
        const struct access_key *key = table->keys[i];
        require(key->name[0] && key->scopes != 0 && key->account);
        require(strcmp(key->account->name, key->name) == 0);
        require(access_table_find_name(table, key->name) == key);
        require(!key->patterns || key->patterns[0]);
        require(access_key_may(key, ACCESS_INFER) || !access_key_may_infer(key, "demo"));
    }
    require(table->hash_count <= table->count && table->count <= ACCESS_KEYS_MAX);
}

static void check_read_again(const struct access_table *table, struct access_accounts *accounts)
{
    struct access_table *again;
    struct fault fault;
    struct text text = written(table);
    require(access_table_create(&again, "again", text.data, text.used, accounts, &fault));
    struct text same = written(again);
    require(again->count == table->count && again->hash_count == table->hash_count);
    require(same.used == text.used
            && (text.used == 0 || memcmp(same.data, text.data, text.used) == 0));
    access_table_free(again);
    text_free(&same);
    text_free(&text);
}

static void check_fault(const struct fault *fault, const uint8_t *data, size_t size)
{
    int line, column, used = 0;
    require(sscanf(fault->message, "keys:%d:%d: %n", &line, &column, &used) == 2 && used > 0);
    const uint8_t *p = data, *end = data + size;
    for (int i = 1; i < line; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        require(p++ != NULL);
    }
    require(column >= 1 && column - 1 <= end - p);
    require(!memchr(p, '\n', (size_t)(column - 1)));
    for (const char *c = fault->message; *c; c++)
        require(*c >= ' ' && *c < 0x7F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fault fault;
    struct access_table *table;
    struct access_accounts *accounts = access_accounts_create();
    require(accounts != NULL);
    if (access_table_create(&table, "keys", (const char *)data, size, accounts, &fault)) {
        check_keys(table);
        check_read_again(table, accounts);
        require(!access_table_find(table, (const char *)data, size) || table->hash_count > 0);
        access_table_free(table);
    } else {
        require(!table);
        check_fault(&fault, data, size);
    }
    access_accounts_free(accounts); /* asserts that no account is left */
    return 0;
}
