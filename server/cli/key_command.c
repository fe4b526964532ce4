/* key_command.c - see key_command.h.
 *
 * No command shows a key but the one that has just made it. */
#include "cli/key_command.h"

#include "access/access_keys.h"
#include "access/access_table.h"
#include "cli/key_new.h"
#include "config/config_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, LINE_BYTES_MAX = 3 * 4096 };

#define USAGE                                                                                      \
    "usage: " KEY_NEW_USAGE "\n"                                                                   \
    "       attnd key hash\n"                                                                      \
    "       attnd key check FILE\n"

static void print_help(void)
{
    printf(
        USAGE
        "\n"
        "new    makes a key of 256 random bits. Prints the key on the first line and its line of\n"
        "       the keys' file on the second. The key is printed this once: the file has its "
        "hash.\n"
        "hash   reads a key from standard input, prints its SHA-256 for the keys' file.\n"
        "check  prints the names, scopes and limits of a keys' file, or what is wrong in it.\n\n");
    key_new_help();
}

/* ------------------------------------------------------------------- hash -- */

/* Reads a key from standard input, with or without an end of line. */
static bool read_secret(char secret[ACCESS_SECRET_BYTES_MAX + 3], size_t *size)
{
    *size = fread(secret, 1, ACCESS_SECRET_BYTES_MAX + 3, stdin);
    if (*size > 0 && secret[*size - 1] == '\n')
        --*size;
    if (*size > 0 && secret[*size - 1] == '\r')
        --*size;
    return access_secret_is_token(secret, *size);
}

static int hash_secret(void)
{
    char secret[ACCESS_SECRET_BYTES_MAX + 3];
    unsigned char hash[ACCESS_HASH_BYTES];
    size_t size;
    if (!read_secret(secret, &size)) {
        fprintf(
            stderr,
            "attnd: what came is no key; expected 1 to %d letters, digits and - . _ ~ + /, with = "
            "at the end alone\n",
            ACCESS_SECRET_BYTES_MAX);
        return EXIT_REFUSED;
    }
    if (!access_secret_hash(secret, size, hash)) {
        fprintf(stderr, "attnd: no memory\n");
        return EXIT_REFUSED;
    }
    for (int i = 0; i < ACCESS_HASH_BYTES; i++)
        printf("%02x", hash[i]);
    printf("\n");
    return fflush(stdout) == 0 ? EXIT_DONE : EXIT_REFUSED;
}

/* ------------------------------------------------------------------ check -- */

static void print_key(const struct access_key *key)
{
    struct text text;
    text_init(&text, LINE_BYTES_MAX);
    access_key_write_scopes(key, &text);
    access_limits_write(&key->limits, &text);
    printf("%s: %.*s%s%s\n", key->name, (int)text.used, text.data,
           key->has_hash ? "" : " (by certificate alone)",
           access_key_is_expired(key, time(NULL)) ? " (expired)" : "");
    text_free(&text);
}

static bool check_file(const char *path, struct fault *fault)
{
    struct access_accounts *accounts = access_accounts_create();
    struct access_table *table = NULL;
    char *text = NULL;
    size_t size;
    const bool good = (accounts || fault_no_memory(fault))
                      && access_file_read(path, &text, &size, fault)
                      && access_table_create(&table, path, text, size, accounts, fault);
    for (int64_t i = 0; good && i < table->count; i++)
        print_key(table->keys[i]);
    access_table_free(table);
    access_accounts_free(accounts);
    free(text);
    return good;
}

/* ---------------------------------------------------------------- command -- */

int key_command(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[2] : "";
    struct fault fault;
    if (config_help_asked(argv)) {
        print_help();
        return EXIT_DONE;
    }
    if (strcmp(verb, "new") == 0)
        return key_new(argc, argv);
    if (strcmp(verb, "hash") == 0 && argc == 3)
        return hash_secret();
    if (strcmp(verb, "check") == 0 && argc == 4) {
        if (check_file(argv[3], &fault))
            return fflush(stdout) == 0 ? EXIT_DONE : EXIT_REFUSED;
        fprintf(stderr, "attnd: %s\n", fault.message);
        return EXIT_REFUSED;
    }
    fprintf(stderr, USAGE);
    return EXIT_USAGE;
}
