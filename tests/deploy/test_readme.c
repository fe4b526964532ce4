/* test_readme.c - what README.md says to paste can be pasted, in order, and answers what it shows.
 *
 * In a copy of the tree, beside a daemon that is started as `make run` starts it: by the lines of
 * `make serve`, with a free port. A block ```sh is given to a shell. A block ```json or ```text
 * behind it is what it writes: numbers of JSON to six digits, any white space, and "..." for any
 * text. */
#include "daemon.h"
#include "manifest.h"
#include "skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS "127.0.0.1:8080"

enum { BLOCKS_MAX = 64, ARGUMENTS_MAX = 32 };

struct block {
    char *language, *text; /* both point into the page */
    bool is_answer;        /* nothing but blank lines between it and the block before */
};

static char *page;
static struct block blocks[BLOCKS_MAX];
static int block_count;

static char *tree; /* the copy, which is the working directory */
static char home[PATH_MAX];
static char *files_before;
static char *printed; /* by `make serve`, before the daemon */
static struct daemon server;

/* ---------------------------------------------------------------------------------- helpers -- */

/* What a script writes to both streams; the caller's to free. It must end with 0. */
static char *shell(const char *script)
{
    daemon_directory_write(tree, "build/pasted.sh", script, strlen(script));
    FILE *stream = popen("bash -e -o pipefail build/pasted.sh 2>&1 </dev/null", "r");
    assert_non_null(stream);
    char *output = NULL;
    size_t size = 0;
    if (getdelim(&output, &size, '\0', stream) < 0)
        *output = '\0';
    const int status = pclose(stream);
    if (status != 0)
        fail_msg("status %d of\n%s\nwhich wrote\n%s", status, script, output);
    return output;
}

static char *files_of_tree(void)
{
    return shell("find . -path ./build -prune -o -type f -print0 | sort -z | xargs -0 cksum");
}

/* The text with every ADDRESS replaced by the daemon's; the caller's to free. */
static char *with_address(const char *text)
{
    char *result = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&result, &size);
    assert_non_null(stream);
    for (const char *found; (found = strstr(text, ADDRESS)); text = found + strlen(ADDRESS))
        fprintf(stream, "%.*s127.0.0.1:%d", (int)(found - text), text, server.port);
    fputs(text, stream);
    fclose(stream);
    return result;
}

/* Makes every run of white space one space, and none at both ends. */
static char *squeezed(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++)
        if (!isspace((unsigned char)*c))
            *to++ = *c;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    if (to > text && to[-1] == ' ')
        to--;
    *to = '\0';
    return text;
}

/* ---------------------------------------------------------------------------------- the page -- */

static void read_page(void)
{
    page = manifest_file_text("README.md");
    bool is_inside = false, only_blanks = false;
    char *rest = page;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct block *block = &blocks[block_count];
        if (strncmp(line, "```", 3) != 0) {
            if (is_inside)
                line[strlen(line)] = rest ? '\n' : '\0';
            else if (*line)
                only_blanks = false;
        } else if (is_inside) {
            line[0] = '\0';
            block_count++;
            is_inside = false;
            only_blanks = true;
        } else {
            assert_true(block_count < BLOCKS_MAX - 1);
            *block = (struct block){ line + 3, rest, only_blanks };
            is_inside = true;
        }
    }
    assert_false(is_inside);
}

static bool is_command(const struct block *block)
{
    return strcmp(block->language, "sh") == 0 && strncmp(block->text, "make run", 8) != 0;
}

/* ------------------------------------------------------------------------------ the daemon -- */

/* The lines of `make serve`: all but the last are run, the last is the daemon's. */
static void serve(void)
{
    char *lines = shell("make --no-print-directory -n serve LISTEN=127.0.0.1:0");
    char *last = strstr(lines, "exec build/attnd ");
    assert_non_null(last);
    last[-1] = '\0';
    printed = shell(lines);
    const char *arguments[ARGUMENTS_MAX] = { 0 };
    int count = 0;
    char *rest = NULL;
    strtok_r(last, " \n", &rest); /* exec */
    strtok_r(NULL, " \n", &rest); /* the program */
    for (char *word; (word = strtok_r(NULL, " \n", &rest)); count++) {
        assert_true(count < ARGUMENTS_MAX - 1);
        arguments[count] = word;
    }
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
    free(lines);
}

static int start(void **state)
{
    (void)state;
    char *program = realpath(daemon_program(), NULL), *command = NULL, address[64];
    assert_non_null(program);
    assert_non_null(getcwd(home, sizeof home));
    tree = daemon_directory_create();
    assert_true(asprintf(&command,
                         "tar -c --exclude=./build --exclude=./.git . | tar -x -C '%s' && mkdir "
                         "'%s/build' && cp '%s' '%s/build/attnd'",
                         tree, tree, program, tree)
                > 0);
    assert_int_equal(system(command), 0);
    free(command);
    assert_int_equal(chdir(tree), 0);
    setenv("ATTND", "build/attnd", 1);
    /* Of the make and of the runner that may have started this program. */
    static const char *const variables[] = { "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BUILD",
                                             "ATTND_TEST_SLOW" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    files_before = files_of_tree();
    read_page();
    serve();
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    setenv("LISTEN", address, 1);
    free(program);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(&server);
    assert_int_equal(chdir(home), 0);
    daemon_directory_remove(tree);
    free(files_before);
    free(printed);
    free(page);
    return 0;
}

/* --------------------------------------------------------------------------------- answers -- */

/* Equal, numbers to six digits. */
static bool json_equal(const cJSON *a, const cJSON *b)
{
    if (cJSON_IsNumber(a) && cJSON_IsNumber(b))
        return fabs(a->valuedouble - b->valuedouble) <= 2e-6 * fmax(1, fabs(b->valuedouble));
    if (!(cJSON_IsArray(a) && cJSON_IsArray(b)) && !(cJSON_IsObject(a) && cJSON_IsObject(b)))
        return cJSON_Compare(a, b, true);
    const cJSON *x = a->child, *y = b->child;
    for (; x && y; x = x->next, y = y->next)
        if ((x->string && strcmp(x->string, y->string) != 0) || !json_equal(x, y))
            return false;
    return !x && !y;
}

/* Whether the parts of shown between its "..." are in the text, one after the other, from its start
 * on, and to its end where shown does not end with "...". */
static bool text_matches(const char *text, const char *shown)
{
    for (bool is_first = true;; is_first = false) {
        const char *dots = strstr(shown, "...");
        char part[4096];
        snprintf(part, sizeof part, "%.*s", dots ? (int)(dots - shown) : (int)strlen(shown), shown);
        squeezed(part);
        const char *found = strstr(text, part);
        if (!found || (is_first && found != text))
            return false;
        text = found + strlen(part);
        if (!dots)
            return *text == '\0';
        shown = dots + 3;
        if (*shown == '\0')
            return true;
    }
}

static void assert_shown(const struct block *answer, char *output)
{
    if (strcmp(answer->language, "json") == 0) {
        cJSON *shown = cJSON_Parse(answer->text), *got = cJSON_Parse(output);
        if (!shown || !got || !json_equal(got, shown))
            fail_msg("README.md shows\n%s\nand the answer is\n%s", answer->text, output);
        cJSON_Delete(shown);
        cJSON_Delete(got);
        return;
    }
    assert_string_equal(answer->language, "text");
    if (!text_matches(squeezed(output), squeezed(answer->text)))
        fail_msg("README.md shows\n%s\nand the answer is\n%s", answer->text, output);
}

/* ----------------------------------------------------------------------------------- tests -- */

/* The one that `make run` prints is the first that README.md shows. */
static void test_printed_request(void **state)
{
    (void)state;
    int i = 0;
    while (i < block_count && !is_command(&blocks[i]))
        i++;
    assert_true(i < block_count);
    char *request = strstr(printed, "curl "), *first = strdup(blocks[i].text);
    assert_non_null(request);
    char *shown = strstr(first, ADDRESS);
    assert_non_null(shown);
    /* Port 0 was asked for. */
    request = squeezed(strstr(request, "/v1/"));
    assert_string_equal(squeezed(shown + strlen(ADDRESS)), request);
    free(first);
}

/* Whatever --listen takes, the request goes where the daemon listens, and clients may put models
 * there as long as only this machine can connect. */
static void test_printed_address(void **state)
{
    (void)state;
    static const struct {
        const char *listen, *address;
        bool takes_models;
    } cases[] = {
        { "127.0.0.1:9303", "http://127.0.0.1:9303/v1/", true },
        { ":9303", "http://127.0.0.1:9303/v1/", true },
        { "localhost:9303", "http://127.0.0.1:9303/v1/", true },
        { "localhost", "http://127.0.0.1:8080/v1/", true },
        { "[::1]:9303", "http://[::1]:9303/v1/", true },
        { "192.0.2.1:9303", "http://192.0.2.1:9303/v1/", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[100];
        snprintf(command, sizeof command, "make -n serve LISTEN=%s", cases[i].listen);
        char *lines = shell(command);
        const bool takes_models = strstr(lines, "--model-control explicit") != NULL;
        if (!strstr(lines, cases[i].address) || takes_models != cases[i].takes_models)
            fail_msg("%s:\n%s", command, lines);
        free(lines);
    }
}

static void test_commands(void **state)
{
    (void)state;
    skip_without("curl", "command -v curl");
    int commands = 0, answers = 0;
    for (int i = 0; i < block_count; i++) {
        if (!is_command(&blocks[i]))
            continue;
        char *script = with_address(blocks[i].text), *output = shell(script);
        commands++;
        if (strstr(output, "\"error\""))
            fail_msg("%s\nanswers\n%s", script, output);
        if (i + 1 < block_count && blocks[i + 1].is_answer && !is_command(&blocks[i + 1])) {
            assert_shown(&blocks[i + 1], output);
            answers++;
        }
        free(script);
        free(output);
    }
    assert_true(commands > 0 && answers > 0);
}

static void test_nothing_changes_outside_build(void **state)
{
    (void)state;
    char *files = files_of_tree();
    assert_string_equal(files, files_before);
    free(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_request),
        cmocka_unit_test(test_printed_address),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_nothing_changes_outside_build),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
