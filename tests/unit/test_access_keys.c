/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_keys.c - the keys of a file, read again: what stays, what goes, what is refused. */
#include "access/access_keys.h"
#include "capture.h"
#include "daemon.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABD "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"

static char *directory, *path;

static void write_file(const char *text, mode_t mode)
{
    daemon_directory_write(directory, "keys", text, strlen(text));
    assert_int_equal(chmod(path, mode), 0);
}

static struct access_keys *open_text(const char *text)
{
    struct access_keys *keys;
    struct fault fault;
    write_file(text, 0600);
    if (!access_keys_open(&keys, path, &fault))
        fail_msg("%s", fault.message);
    return keys;
}

static void reload_text(struct access_keys *keys, const char *text, int added, int removed)
{
    struct access_keys_change change;
    struct fault fault;
    write_file(text, 0600);
    if (!access_keys_reload(keys, &change, &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(change.added, added);
    assert_int_equal(change.removed, removed);
    assert_int_equal(change.count, access_keys_count(keys));
}

/* The line that a search finds the key in; 0: none. */
static int line_of(struct access_keys *keys, const char *secret)
{
    struct access_key *key = access_keys_find(keys, secret, strlen(secret));
    const int line = key ? key->line : 0;
    access_key_release(key);
    return line;
}

static void append_name(void *context, struct access_account *account)
{
    strcat(context, account->name);
    strcat(context, " ");
}

static void assert_accounts(struct access_keys *keys, const char *expected)
{
    char names[256] = "";
    access_keys_each_account(keys, append_name, names);
    assert_string_equal(names, expected);
}

TEST(find)
{
    struct access_keys *keys = open_text("a " ABC " infer\nb " ABD " admin expires=2001-09-09\n"
                                         "c - metrics\nd - metrics expires=2001-09-09\n");
    assert_int_equal(access_keys_count(keys), 4);
    assert_int_equal(line_of(keys, "abc"), 1);
    assert_int_equal(line_of(keys, "abd"), 0); /* expired */
    assert_int_equal(line_of(keys, "abe"), 0);
    assert_int_equal(line_of(keys, ""), 0);
    struct access_key *key = access_keys_find_name(keys, "c");
    assert_string_equal(key->name, "c");
    assert_true(access_key_may(key, ACCESS_METRICS));
    assert_false(access_key_may(key, ACCESS_INFER));
    access_key_release(key);
    assert_null(access_keys_find_name(keys, "d")); /* expired */
    assert_null(access_keys_find_name(keys, "e"));
    assert_accounts(keys, "a b c d ");
    access_keys_free(keys);
}

/* Keys go with their file, but not while a request holds them; accounts stay by their names. */
TEST(reload)
{
    struct access_keys *keys = open_text("a " ABC " infer cpu=1\nb " ABD " infer\n");
    struct access_key *a = access_keys_find(keys, "abc", 3), *b = access_keys_find(keys, "abd", 3);
    reload_text(keys, "# moved\na " ABD " metrics cpu=2\nc " ABC " infer\n", 1, 1);

    assert_true(access_key_may(a, ACCESS_INFER) && !access_key_may(a, ACCESS_METRICS));
    assert_int_equal(a->line, 1);
    assert_string_equal(b->name, "b");
    assert_accounts(keys, "a b c ");
    struct access_key *new_a = access_keys_find(keys, "abd", 3);
    assert_string_equal(new_a->name, "a");
    assert_ptr_not_equal(new_a, a);
    assert_ptr_equal(new_a->account, a->account);
    assert_true(a->limits.cpu == 1 && new_a->limits.cpu == 2 && a->account->limits.cpu == 2);

    access_key_release(access_key_hold(b));
    struct access_account *account = b->account;
    reload_text(keys, "b " ABC " infer\n", 1, 2); /* b comes back to its account */
    struct access_key *new_b = access_keys_find(keys, "abc", 3);
    assert_ptr_equal(new_b->account, account);
    access_key_release(new_b);
    access_key_release(b);
    access_key_release(new_a);
    assert_accounts(keys, "a b ");
    access_key_release(a);
    assert_accounts(keys, "b ");
    reload_text(keys, "", 0, 1);
    assert_accounts(keys, "");
    access_keys_free(keys);
}

TEST(wrong_file_keeps_keys)
{
    struct access_keys *keys = open_text("a " ABC " infer cpu=1\n");
    struct fault fault;
    char expected[512];
    write_file("# longer\nb " ABD " infer\na " ABC " infer cpu=3 in-flight=no\n", 0600);
    assert_false(access_keys_reload(keys, NULL, &fault));
    snprintf(expected, sizeof expected,
             "%s:3:90: in-flight is 'no'; expected a number of requests, from 1 to 1000000", path);
    assert_string_equal(fault.message, expected);
    assert_int_equal(line_of(keys, "abc"), 1);
    assert_int_equal(line_of(keys, "abd"), 0);
    assert_accounts(keys, "a ");
    struct access_key *key = access_keys_find(keys, "abc", 3);
    assert_true(key->account->limits.cpu == 1);
    access_key_release(key);
    assert_int_equal(unlink(path), 0);
    assert_false(access_keys_reload(keys, NULL, &fault));
    assert_non_null(strstr(fault.message, "No such file"));
    assert_int_equal(line_of(keys, "abc"), 1);
    access_keys_free(keys);
}

static void assert_not_opened(const char *file, const char *words)
{
    struct access_keys *keys;
    struct fault fault;
    assert_false(access_keys_open(&keys, file, &fault));
    assert_null(keys);
    assert_non_null(strstr(fault.message, file));
    if (!strstr(fault.message, words))
        fail_msg("'%s' lacks '%s'", fault.message, words);
}

/* What opening the file logs; the caller frees it. */
static char *logged(mode_t mode)
{
    struct capture capture;
    write_file("a - infer\n", mode);
    capture_begin(&capture, STDERR_FILENO);
    struct access_keys *keys;
    struct fault fault;
    const bool good = access_keys_open(&keys, path, &fault);
    char *log = capture_end(&capture, NULL);
    assert_true(good);
    access_keys_free(keys);
    return log;
}

TEST(files)
{
    char other[512];
    assert_not_opened("/nowhere/keys", "No such file");
    assert_not_opened(directory, "is not a regular file");
    snprintf(other, sizeof other, "%s/pipe", directory);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_not_opened(other, "is not a regular file");
    write_file("a - infer\n", 0602);
    assert_not_opened(path, "others may write it (mode 0602); expected none to, chmod o-w");

    char *log = logged(0640);
    assert_string_equal(log, "");
    free(log);
    log = logged(0644);
    assert_non_null(strstr(log, "warning keys readable by others"));
    free(log);

    snprintf(other, sizeof other, "%s/link", directory);
    assert_int_equal(symlink("keys", other), 0);
    write_file("a - infer\n", 0600);
    struct access_keys *keys;
    struct fault fault;
    assert_true(access_keys_open(&keys, other, &fault));
    access_keys_free(keys);
}

TEST(size)
{
    const size_t most = 1 << 20;
    char *text = malloc(most + 2);
    assert_non_null(text);
    memset(text, '\n', most + 1);
    text[most + 1] = '\0';
    write_file(text, 0600);
    assert_not_opened(path, "has more than 1048576 bytes");
    text[most] = '\0';
    access_keys_free(open_text(text));
    free(text);
}

/* ---------------------------------------------------------------- threads -- */

static _Atomic bool is_over;

/* The secret "abc" is in every reading of the file, of a name that changes. No key is found before
 * its account has its bounds. */
static void *search(void *context)
{
    struct access_keys *keys = context;
    intptr_t missed = 0;
    while (!atomic_load(&is_over)) {
        struct access_key *key = access_keys_find(keys, "abc", 3);
        missed += !key || (strcmp(key->name, "a") != 0 && strcmp(key->name, "b") != 0)
                  || strcmp(key->account->name, key->name) != 0
                  || atomic_load(&key->account->quota.in_flight_max) != 1;
        access_key_release(key);
    }
    return (void *)missed;
}

TEST(readers_beside_reloads)
{
    struct access_keys *keys = open_text("a " ABC " infer in-flight=1\n");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, search, keys), 0);
    for (int i = 0; i < 200; i++) {
        struct fault fault;
        write_file(i % 3 == 2   ? "b"
                   : i % 3 == 1 ? "a " ABC " infer in-flight=1\n"
                                : "c - infer\nb " ABC " infer in-flight=1\n",
                   0600);
        assert_int_equal(access_keys_reload(keys, NULL, &fault), i % 3 != 2);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++) {
        void *missed;
        assert_int_equal(pthread_join(threads[i], &missed), 0);
        assert_null(missed);
    }
    access_keys_free(keys);
}

static int create_directory(void **state)
{
    directory = daemon_directory_create();
    return asprintf(&path, "%s/keys", directory) > 0 ? 0 : -1;
}

static int remove_directory(void **state)
{
    daemon_directory_remove(directory);
    free(path);
    return 0;
}

ALL_TESTS(create_directory, remove_directory);
