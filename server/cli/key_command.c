/* SPDX-License-Identifier: Apache-2.0 */
/* key_command.c - attnd key: new, hash and check. No command shows a key but the one that has just
 * made it.
 *
 * The line of a new key is put together from the words of the command line and then read as the
 * daemon reads it, so both take the same. With --append the file is read too, with the line at its
 * end: a name that is there already is found before anything is written. */
#include "cli/commands.h"

#include "access/access_keys.h"
#include "access/access_table.h"
#include "base/names.h"
#include "host/config_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEW_USAGE "attnd key new NAME [--scope SCOPES]... [--LIMIT VALUE]... [--append FILE]"

enum {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,
    EXIT_USAGE = 2,
    SCOPES_MAX = 64,
    FLAG_BYTES = 80,
    LINE_BYTES_MAX = 3 * 4096,
    KNOWN_COUNT = ACCESS_LIMIT_COUNT + 2,
};

struct wanted {
    const char *name, *path; /* path: of --append, or NULL */
    const char *scopes[SCOPES_MAX];
    int scope_count;
    const char *limits[ACCESS_LIMIT_COUNT]; /* NULL: not given */
};

/* -------------------------------------------------------------- arguments -- */

static bool refuse_flag(const char *flag, struct fault *fault)
{
    const char *known[KNOWN_COUNT] = { "scope", "append" };
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        known[i + 2] = access_limit_name(i);
    const char *near = nearest_name(flag, known, KNOWN_COUNT);
    return near ? fault_set(fault, FAULT_OPTION, "there is no flag '--%.60s'; the nearest is --%s",
                            flag, near)
                : fault_set(fault, FAULT_OPTION, "there is no flag '--%.60s'; --help lists them",
                            flag);
}

/* Whether the text is one word of a line, and no comment begins in it. */
static bool is_one_word(const char *text)
{
    return text[0] && !text[strcspn(text, " \t\r\n#")];
}

/* flag is without its dashes. */
static bool take_flag(struct wanted *wanted, const char *flag, const char *value,
                      struct fault *fault)
{
    const int limit = access_limit_find(flag);
    const bool is_scope = strcmp(flag, "scope") == 0, is_append = strcmp(flag, "append") == 0;
    if (limit < 0 && !is_scope && !is_append)
        return refuse_flag(flag, fault);
    if (!value || !value[0])
        return fault_set(fault, FAULT_OPTION, "--%s has no value", flag);
    /* A word of scopes with a '=' would be a limit. */
    if (!is_append && (!is_one_word(value) || (is_scope && strchr(value, '='))))
        return fault_set(fault, FAULT_OPTION, "--%s is '%.60s'; expected one word", flag, value);
    if (is_append)
        wanted->path = value;
    else if (!is_scope)
        wanted->limits[limit] = value;
    else if (wanted->scope_count < SCOPES_MAX)
        wanted->scopes[wanted->scope_count++] = value;
    else
        return fault_set(fault, FAULT_OPTION, "more than %d times --scope came", SCOPES_MAX);
    return true;
}

static bool read_arguments(struct wanted *wanted, int argc, char **argv, struct fault *fault)
{
    char flag[FLAG_BYTES];
    for (int i = 3; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (wanted->name)
                return fault_set(fault, FAULT_OPTION, "two names came, '%.60s' and '%.60s'",
                                 wanted->name, argv[i]);
            wanted->name = argv[i];
            continue;
        }
        const char *equals = strchr(argv[i], '=');
        const size_t size = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        snprintf(flag, sizeof flag, "%.*s", (int)size - 2, argv[i] + 2);
        const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!take_flag(wanted, flag, value, fault))
            return false;
    }
    if (!wanted->name)
        return fault_set(fault, FAULT_OPTION, "the name is missing");
    if (!is_one_word(wanted->name))
        return fault_set(fault, FAULT_OPTION,
                         "the name is '%.80s'; expected 1 to %d letters, digits, '.', '_' and '-'",
                         wanted->name, ACCESS_NAME_MAX);
    if (wanted->scope_count == 0)
        wanted->scopes[wanted->scope_count++] = access_scope_name(ACCESS_INFER);
    return true;
}

/* ------------------------------------------------------------------- line -- */

static void write_line(const struct wanted *wanted, const unsigned char *hash, struct text *line)
{
    text_format(line, "%s ", wanted->name);
    for (int i = 0; i < ACCESS_HASH_BYTES; i++)
        text_format(line, "%02x", hash[i]);
    for (int i = 0; i < wanted->scope_count; i++) {
        text_raw(line, " ");
        text_raw(line, wanted->scopes[i]);
    }
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        if (wanted->limits[i]) {
            text_format(line, " %s=", access_limit_name(i));
            text_raw(line, wanted->limits[i]);
        }
}

/* Whether the daemon takes the line. Its fault says where in the line, which the user did not
 * write, so the place is cut off. */
static bool check_line(const struct text *text, struct fault *fault)
{
    static const char path[] = "line";
    const struct access_line line = { path, 1, text->data, text->used };
    struct access_line_places places;
    struct access_key *key = access_key_create();
    if (!key)
        return fault_no_memory(fault);
    const bool good = access_line_read(&line, key, &places, fault);
    access_key_release(key);
    if (good)
        return true;
    char message[FAULT_MESSAGE_MAX];
    const bool has_place = strncmp(fault->message, path, strlen(path)) == 0;
    const char *space = has_place ? strchr(fault->message, ' ') : NULL;
    snprintf(message, sizeof message, "%s", space ? space + 1 : fault->message);
    return fault_set(fault, fault->code, "%s", message);
}

/* ----------------------------------------------------------------- append -- */

/* Whether the daemon takes the file with the line at its end. *needs_newline: the file does not
 * end with one. */
static bool check_whole(const char *path, const struct text *line, bool *needs_newline,
                        struct fault *fault)
{
    char *old = NULL;
    size_t old_size = 0;
    *needs_newline = false;
    if (access(path, F_OK) == 0 && !access_file_read(path, &old, &old_size, fault))
        return false;
    *needs_newline = old_size > 0 && old[old_size - 1] != '\n';
    struct access_accounts *accounts = access_accounts_create();
    struct access_table *table = NULL;
    struct text whole;
    text_init(&whole, SIZE_MAX);
    if (old_size > 0)
        text_bytes(&whole, old, old_size);
    text_raw(&whole, *needs_newline ? "\n" : "");
    text_bytes(&whole, line->data, line->used);
    bool good = (accounts || fault_no_memory(fault)) && text_finish(&whole, fault);
    if (good && whole.used >= ACCESS_FILE_BYTES_MAX)
        good = fault_set(fault, FAULT_OPTION,
                         "%.160s: has no room for a line more; expected at most %d bytes", path,
                         ACCESS_FILE_BYTES_MAX);
    good = good && access_table_create(&table, path, whole.data, whole.used, accounts, fault);
    access_table_free(table);
    access_accounts_free(accounts);
    text_free(&whole);
    free(old);
    return good;
}

/* Appends the line in one write(), so that a daemon that reads the file meanwhile finds it whole or
 * not at all. A new file is for its owner alone. */
static bool append(const char *path, const struct text *line, bool needs_newline,
                   struct fault *fault)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    text_raw(&text, needs_newline ? "\n" : "");
    text_bytes(&text, line->data, line->used);
    text_raw(&text, "\n");
    bool good = text_finish(&text, fault);
    errno = 0; /* a short write sets none */
    const int file = good ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (good) {
        good = file >= 0 && write(file, text.data, text.used) == (ssize_t)text.used
               && fsync(file) == 0;
        if (!good)
            fault_set(fault, FAULT_STORAGE, "%.160s: cannot be written: %s", path,
                      errno ? strerror(errno) : "no space left");
    }
    if (file >= 0)
        close(file);
    text_free(&text);
    return good;
}

/* ---------------------------------------------------------------- command -- */

static void print_new_help(void)
{
    printf("flags of new:\n"
           "  --scope SCOPES    %s (%s);\n"
           "                    infer:model-a,team-* for models by name; may be repeated\n",
           access_scope_names(), access_scope_name(ACCESS_INFER));
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        printf("  --%-15s %s\n", access_limit_name(i), access_limit_help(i));
    printf("  --append FILE     put the line at the end of the file, and print the key alone:\n"
           "                    key=$(attnd key new web --append keys)\n");
}

/* Puts the line into the file or prints it, behind the key, which is printed last where there is a
 * file: a key whose line is in no file is worth nothing. */
static bool hand_out(const struct wanted *wanted, const char *secret, const struct text *line,
                     struct fault *fault)
{
    bool needs_newline;
    if (wanted->path
        && !(check_whole(wanted->path, line, &needs_newline, fault)
             && append(wanted->path, line, needs_newline, fault)))
        return false;
    printf("%s\n", secret);
    if (!wanted->path)
        printf("%.*s\n", (int)line->used, line->data);
    return fflush(stdout) == 0
           || fault_set(fault, FAULT_STORAGE, "standard output: %s", strerror(errno));
}

static bool make_key(const struct wanted *wanted, struct text *line, bool *is_usage,
                     struct fault *fault)
{
    char secret[ACCESS_SECRET_NEW_BYTES];
    unsigned char hash[ACCESS_HASH_BYTES];
    if (!access_secret_new(secret) || !access_secret_hash(secret, strlen(secret), hash))
        return fault_set(fault, FAULT_MEMORY, "there are no random numbers");
    write_line(wanted, hash, line);
    if (!text_finish(line, fault))
        return false;
    *is_usage = !check_line(line, fault);
    return !*is_usage && hand_out(wanted, secret, line, fault);
}

/* argv[2] is "new". Prints the key, and the line unless it is appended to a file. */
static int make_new(int argc, char **argv)
{
    struct wanted wanted = { 0 };
    struct fault fault;
    struct text line;
    text_init(&line, SIZE_MAX);
    bool is_usage = !read_arguments(&wanted, argc, argv, &fault);
    const bool good = !is_usage && make_key(&wanted, &line, &is_usage, &fault);
    text_free(&line);
    if (good)
        return EXIT_DONE;
    fprintf(stderr, "attnd: %s\n", fault.message);
    if (is_usage)
        fprintf(stderr, "usage: " NEW_USAGE "\n");
    return is_usage ? EXIT_USAGE : EXIT_REFUSED;
}

/* --------------------------------------------------------------- commands -- */

#define USAGE                                                                                      \
    "usage: " NEW_USAGE "\n"                                                                       \
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
    print_new_help();
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
        return make_new(argc, argv);
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
