/* SPDX-License-Identifier: Apache-2.0 */
/* test_start_matrix.c - where the daemon listens without keys.
 *
 * Every address of the matrix is tried with and without a file of keys, with and without --open,
 * and with the settings as flags and as variables. The daemon starts on an address of this machine
 * alone. It starts on any other only with keys or with --open; otherwise it ends with 1 before it
 * has listened on anything, and says both ways in one line. */
#include "daemon.h"
#include "test.h"

#include <unistd.h>

enum { LIST_MAX = 16, TEXT_BYTES = 256 };

static const char REASON[] = "is reachable from other machines; give --keys FILE (attnd key new "
                             "NAME makes one), or --open to let everybody who reaches it do "
                             "everything";

static const struct {
    const char *text;
    bool is_world;
} ADDRESSES[] = {
    { "127.0.0.1:0", false },
    { "127.3.2.1:0", false },
    { "localhost:0", false },
    { ":0", false },
    { "[::1]:0", false },
    { "[0:0::0:1]:0", false },
    { "[::ffff:127.0.0.9]:0", false },
    { "0.0.0.0:0", true },
    { "[::]:0", true },
    { "[::ffff:0.0.0.0]:0", true },
    { "128.0.0.1:0", true },
    { "126.255.255.255:0", true },
    { "203.0.113.7:0", true },
    { "[2001:db8::1]:0", true },
    { "[fe80::1%lo]:0", true },
    { "[::127.0.0.1]:0", true },
    { "unix:@attnd-start-matrix", false },
};
enum { ADDRESS_COUNT = sizeof ADDRESSES / sizeof ADDRESSES[0] };

/* How --open is given. */
enum { OPEN_NOT, OPEN_FLAG, OPEN_VARIABLE, OPEN_VARIABLE_OFF, OPEN_COUNT };

static char *folder;
static char keys_path[TEXT_BYTES];

static int write_keys(void **state)
{
    static const char KEYS[] = "# name, hash, scopes\n"
                               "somebody  "
                               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  "
                               "admin\n";
    folder = daemon_directory_create();
    daemon_directory_write(folder, "keys", KEYS, sizeof KEYS - 1);
    snprintf(keys_path, sizeof keys_path, "%s/keys", folder);
    return 0;
}

static int remove_keys(void **state)
{
    daemon_directory_remove(folder);
    return 0;
}

/* Settings of one start, as flags and as variables. */
struct start {
    const char *arguments[LIST_MAX], *environment[LIST_MAX];
    int argument_count, variable_count;
    char texts[LIST_MAX][TEXT_BYTES];
    int text_count;
};

static void give(struct start *start, bool as_variable, const char *flag, const char *value)
{
    char *text = start->texts[start->text_count++];
    if (!as_variable) {
        snprintf(text, TEXT_BYTES, value ? "--%s=%s" : "--%s", flag, value);
        start->arguments[start->argument_count++] = text;
        return;
    }
    snprintf(text, TEXT_BYTES, "ATTND_%s=%s", flag, value);
    for (char *c = text; *c != '='; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    start->environment[start->variable_count++] = text;
}

static void give_open(struct start *start, int open)
{
    if (open == OPEN_FLAG)
        give(start, false, "open", NULL);
    else if (open != OPEN_NOT)
        give(start, true, "open", open == OPEN_VARIABLE ? "1" : "0");
}

/* Whether text has exactly one line with the reason, and the address is in it. */
static bool says_why(const char *text, const char *address)
{
    char named[TEXT_BYTES];
    const char *found = strstr(text, REASON);
    snprintf(named, sizeof named, "\"%s ", address);
    return found && !strstr(found + 1, REASON) && strstr(text, named)
           && strstr(text, named) < found;
}

static void expect(struct start *start, const char *address, bool is_refused)
{
    struct daemon_result result = daemon_command(start->arguments, start->environment);
    if (is_refused) {
        if (result.exit_code != 1 || !says_why(result.errors, address)
            || strchr(result.errors, '\n')[1])
            fail_msg("%s ended with %d: %s", address, result.exit_code, result.errors);
        assert_string_equal(result.output, "");
    } else if (strstr(result.errors, REASON)) {
        fail_msg("%s is refused: %s", address, result.errors);
    }
    daemon_result_free(&result);
}

/* What the daemon says to the rows of the matrix without starting, for one of its listeners.
 * Whether this machine has the address is another question, so a row that is allowed may still fail
 * for that. */
static void try_matrix(bool for_operators)
{
    for (int a = 0; a < ADDRESS_COUNT; a++)
        for (int keys = 0; keys < 2; keys++)
            for (int open = 0; open < OPEN_COUNT; open++)
                for (int by_variable = 0; by_variable < 2; by_variable++) {
                    struct start start = { .argument_count = 0 };
                    give(&start, false, "check-config", NULL);
                    if (for_operators)
                        give(&start, !by_variable, "listen", "127.0.0.1:0");
                    give(&start, by_variable, for_operators ? "admin-listen" : "listen",
                         ADDRESSES[a].text);
                    give_open(&start, open);
                    if (keys)
                        give(&start, by_variable, "keys", keys_path);
                    const bool is_open = open == OPEN_FLAG || open == OPEN_VARIABLE;
                    expect(&start, ADDRESSES[a].text, ADDRESSES[a].is_world && !is_open && !keys);
                }
}

TEST(matrix)
{
    try_matrix(false);
}

TEST(matrix_of_operators)
{
    try_matrix(true);
}

/* One address of the world among others is enough, in any place. */
TEST(among_others)
{
    static const char *const lists[] = { "127.0.0.1:0,0.0.0.0:0", "0.0.0.0:0,localhost:0",
                                         "[::1]:0,127.0.0.1:0,0.0.0.0:0" };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct start start = { .argument_count = 0 };
        give(&start, true, "listen", lists[i]);
        expect(&start, "0.0.0.0:0", true);
    }
    struct start start = { .argument_count = 0 };
    give(&start, true, "listen", "0.0.0.0:0");
    give(&start, false, "check-config", NULL);
    give(&start, false, "listen", "127.0.0.1:0");
    expect(&start, "127.0.0.1:0", false); /* the flag replaces the variable */
}

/* A start that is refused has not listened on the addresses before the refused one. */
TEST(nothing_is_bound)
{
    char listen[2 * TEXT_BYTES];
    char socket_path[TEXT_BYTES];
    struct start start = { .argument_count = 0 };
    snprintf(socket_path, sizeof socket_path, "%s/attnd.sock", folder);
    snprintf(listen, sizeof listen, "127.0.0.1:%d,unix:%s,0.0.0.0:0", daemon_free_port(),
             socket_path);
    give(&start, true, "listen", listen);
    struct daemon_result result = daemon_command(start.arguments, start.environment);
    assert_int_equal(result.exit_code, 1);
    assert_true(says_why(result.errors, "0.0.0.0:0"));
    assert_null(strstr(result.errors, "listening"));
    assert_null(strstr(result.errors, "starting"));
    assert_int_equal(access(socket_path, F_OK), -1);
    daemon_result_free(&result);
}

static void assert_starts(const struct start *start)
{
    struct daemon server;
    daemon_start(&server, &(struct daemon_options){ .arguments = start->arguments,
                                                    .environment = start->environment,
                                                    .listen_count = 1 });
    char *log = daemon_log_with(&server, "ready");
    assert_null(strstr(log, REASON));
    free(log);
    daemon_stop(&server);
}

/* With one of the two ways it listens and answers. */
TEST(starts)
{
    for (int way = 0; way < 4; way++) {
        struct start start = { .argument_count = 0 };
        give(&start, way % 2, "listen", "0.0.0.0:0");
        if (way < 2)
            give_open(&start, way == 0 ? OPEN_FLAG : OPEN_VARIABLE);
        else
            give(&start, way % 2, "keys", keys_path);
        assert_starts(&start);
    }
}

ALL_TESTS(write_keys, remove_keys);
