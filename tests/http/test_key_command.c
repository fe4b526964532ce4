/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_command.c - attnd key: what it makes is taken by --keys, and what it prints can be used
 * by a script. And how a daemon reads its keys again. */
#include "daemon.h"
#include "manifest.h"
#include "test.h"

#include <signal.h>
#include <sys/stat.h>

#define USAGE "usage: attnd key new NAME [--scope SCOPES]... [--LIMIT VALUE]... [--append FILE]\n"

enum { PATH_BYTES = 512, ARGUMENTS_MAX = 16 };

static char *directory, path[PATH_BYTES];

/* Runs attnd with words, which are separated by spaces; FILE is the file of keys. */
static struct daemon_result run(const char *words)
{
    char text[PATH_BYTES];
    const char *arguments[ARGUMENTS_MAX] = { 0 };
    int count = 0;
    char *rest = NULL;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = strcmp(word, "FILE") == 0 ? path : word;
    return daemon_command(arguments, NULL);
}

/* It must print nothing and end with the status; its errors are exactly these. */
static void assert_refused(const char *words, int exit_code, const char *errors)
{
    struct daemon_result result = run(words);
    assert_string_equal(result.errors, errors);
    assert_string_equal(result.output, "");
    assert_int_equal(result.exit_code, exit_code);
    daemon_result_free(&result);
}

/* Its output, which the caller frees. */
static char *output_of(const char *words)
{
    struct daemon_result result = run(words);
    if (result.exit_code != 0)
        fail_msg("%s: %s", words, result.errors);
    assert_string_equal(result.errors, "");
    char *output = strdup(result.output);
    assert_non_null(output);
    daemon_result_free(&result);
    return output;
}

static void write_keys(const char *text)
{
    daemon_directory_write(directory, "keys", text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
}

/* The hash that a shell finds for the key; the caller frees it. */
static char *hash_of(const char *secret)
{
    char command[256], hash[65] = "";
    snprintf(command, sizeof command, "printf %%s '%s' | %s key hash", secret, daemon_program());
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    assert_int_equal(fread(hash, 1, 64, stream), 64);
    assert_int_equal(fgetc(stream), '\n');
    assert_int_equal(pclose(stream), 0);
    return strdup(hash);
}

TEST(new)
{
    char *output = output_of("key new web --scope infer:team-*,b --scope metrics --cpu 0.5 "
                             "--in-flight=8 --expires 2031-01-01");
    char *line = strchr(output, '\n');
    assert_non_null(line);
    *line++ = '\0';
    assert_memory_equal(output, "attnd_", 6);
    char *hash = hash_of(output), expected[256];
    snprintf(expected, sizeof expected,
             "web %s infer:team-*,b metrics cpu=0.5 in-flight=8 expires=2031-01-01\n", hash);
    assert_string_equal(line, expected);
    write_keys(line);
    char *checked = output_of("key check FILE");
    assert_string_equal(checked,
                        "web: infer:team-*,b,metrics cpu=0.5 in-flight=8 expires=2031-01-01\n");
    free(checked);
    free(hash);
    free(output);
}

TEST(append)
{
    struct stat status;
    remove(path);
    free(output_of("key new a --append FILE"));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    char *secret = output_of("key new b --scope admin --memory 64MiB --append FILE");
    assert_int_equal(strlen(secret), 6 + 43 + 1); /* the key alone */
    free(secret);
    char *checked = output_of("key check FILE");
    assert_string_equal(checked, "a: infer\nb: admin memory=64MiB\n");
    free(checked);

    char *before = manifest_file_text(path), expected[PATH_BYTES * 2];
    snprintf(expected, sizeof expected,
             "attnd: %s:3:1: the name 'a' came in line 1 already; expected another\n", path);
    assert_refused("key new a --append FILE", 1, expected);
    char *after = manifest_file_text(path);
    assert_string_equal(after, before);
    free(before);
    free(after);

    write_keys("# no end of line");
    free(output_of("key new a --append FILE"));
    checked = output_of("key check FILE");
    assert_string_equal(checked, "a: infer\n");
    free(checked);
}

/* In a directory that is not there: the message has the reason. */
TEST(append_nowhere)
{
    char words[PATH_BYTES * 2], expected[PATH_BYTES * 2];
    remove(path);
    snprintf(words, sizeof words, "key new a --append %s/none/keys", directory);
    snprintf(expected, sizeof expected,
             "attnd: %s/none/keys: cannot be written: No such file or directory\n", directory);
    assert_refused(words, 1, expected);
}

TEST(refused)
{
    static const char *const cases[][2] = {
        { "key new", "the name is missing" },
        { "key new a b", "two names came, 'a' and 'b'" },
        { "key new a#b", "the name is 'a#b'; expected 1 to 64 letters, digits, '.', '_' and '-'" },
        { "key new a/b", "'/' came in a name; expected letters, digits, '.', '_' and '-'" },
        { "key new a --scope infr", "there is no scope 'infr'; the nearest is infer" },
        { "key new a --scope cpu=1", "--scope is 'cpu=1'; expected one word" },
        { "key new a --scop infer", "there is no flag '--scop'; the nearest is --scope" },
        { "key new a --zebra 1", "there is no flag '--zebra'; --help lists them" },
        { "key new a --cpu", "--cpu has no value" },
        { "key new a --cpu=0",
          "cpu is '0'; expected CPU seconds a second, as in 0.5, from 0.001 to 1024" },
        { "key new a --burst 1s", "burst came without cpu; expected cpu=NUMBER beside it" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char errors[512];
        snprintf(errors, sizeof errors, "attnd: %s\n" USAGE, cases[i][1]);
        assert_refused(cases[i][0], 2, errors);
    }
    assert_refused("key", 2, USAGE "       attnd key hash\n       attnd key check FILE\n");
    write_keys("a - infer\nb - infr\n");
    char errors[PATH_BYTES * 2];
    snprintf(errors, sizeof errors,
             "attnd: %s:2:5: there is no scope 'infr'; the nearest is infer\n", path);
    assert_refused("key check FILE", 1, errors);
    char *help = output_of("key --help");
    assert_non_null(strstr(help, USAGE));
    assert_non_null(strstr(help, "--in-flight"));
    free(help);
}

static void assert_hash_refused(const char *input)
{
    char command[256];
    snprintf(command, sizeof command, "printf '%s' | %s key hash 2>&1", input, daemon_program());
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    char line[256] = "";
    assert_non_null(fgets(line, sizeof line, stream));
    assert_non_null(strstr(line, "attnd: what came is no key; expected 1 to 512 letters"));
    assert_int_not_equal(pclose(stream), 0);
}

TEST(hash)
{
    char *plain = hash_of("abc"), *with_end = hash_of("abc\n");
    assert_string_equal(plain, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(with_end, plain);
    free(plain);
    free(with_end);
    assert_hash_refused("");
    assert_hash_refused("\\n");
    assert_hash_refused("a b");
    assert_hash_refused("abc\\n\\n");
}

/* ----------------------------------------------------------------- daemon -- */

TEST(check_config)
{
    write_keys("a - infer\nb - infer\n");
    char *output = output_of("--check-config --listen 127.0.0.1:0 --keys FILE");
    char expected[PATH_BYTES * 2];
    snprintf(expected, sizeof expected, "keys: 2, %s\n", path);
    assert_memory_equal(output, expected, strlen(expected));
    free(output);
    write_keys("a - infer\n\nb\n");
    snprintf(expected, sizeof expected,
             "attnd: --keys: %s:3:2: the line ends; expected the key's SHA-256 as 64 hexadecimal "
             "digits, "
             "or -\n",
             path);
    assert_refused("--check-config --listen 127.0.0.1:0 --keys FILE", 1, expected);
}

TEST(not_started)
{
    write_keys("a - infer cpu=no\n");
    struct daemon_result result = run("--listen 127.0.0.1:0 --keys FILE");
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "error not started reason="));
    assert_non_null(strstr(result.errors, "keys:1:15: cpu is 'no'; expected CPU seconds"));
    daemon_result_free(&result);
}

TEST(read_again)
{
    struct daemon server;
    write_keys("a - infer\nb - infer\n");
    daemon_start_with(&server, "--keys", path, NULL);
    free(daemon_log_with(&server, " keys=2\n"));
    write_keys("b - infer cpu=1\nc - infer\nd - infer\n");
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    free(daemon_log_with(&server, "info keys read again keys=3 added=2 removed=1\n"));
    free(daemon_log_with(&server, "info audit who=SIGHUP what=keys outcome=done\n"));
    write_keys("b - infer\nc - infr\n");
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    free(daemon_log_with(&server, "info audit who=SIGHUP what=keys outcome=refused\n"));
    char *log = daemon_log(&server);
    assert_non_null(strstr(log, "warning keys not read again, those of before stay reason="));
    assert_non_null(strstr(log, "keys:2:5: there is no scope 'infr'; the nearest is infer"));
    free(log);
    daemon_stop(&server);
}

static int create_directory(void **state)
{
    directory = daemon_directory_create();
    snprintf(path, sizeof path, "%s/keys", directory);
    return 0;
}

static int remove_directory(void **state)
{
    daemon_directory_remove(directory);
    return 0;
}

ALL_TESTS(create_directory, remove_directory);
