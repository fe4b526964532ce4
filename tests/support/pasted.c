/* SPDX-License-Identifier: Apache-2.0 */
/* pasted.c - pages whose commands are pasted; see pasted.h. */
#include "pasted.h"
#include "balancer.h"
#include "manifest.h"
#include "test.h"

#include <cjson/cJSON.h>

#include <ctype.h>
#include <limits.h>
#include <unistd.h>

#define ADDRESS   "127.0.0.1:8080"
#define FREE_PORT ":8443"

enum { ARGUMENTS_MAX = 32 };

static const char run_line[] = "make run";

static char *tree; /* the copy, which is the working directory */
static char home[PATH_MAX];
static char *program; /* the daemon's, outside the copy */
static char *files_before;
static struct daemon server;
static const char *start_page; /* of pasted_start_as(); NULL: none */

/* ----------------------------------------------------------------------------------- text -- */

/* The text with every ADDRESS replaced by the daemon's, and every FREE_PORT by a port that is free;
 * the caller's to free. */
static char *with_address(const char *text)
{
    char *result = NULL;
    size_t size = 0;
    const int port = strstr(text, FREE_PORT) ? daemon_free_port() : 0;
    FILE *stream = open_memstream(&result, &size);
    assert_non_null(stream);
    while (*text) {
        if (strncmp(text, ADDRESS, strlen(ADDRESS)) == 0) {
            fprintf(stream, "127.0.0.1:%d", server.port);
            text += strlen(ADDRESS);
        } else if (strncmp(text, FREE_PORT, strlen(FREE_PORT)) == 0) {
            fprintf(stream, ":%d", port);
            text += strlen(FREE_PORT);
        } else {
            fputc(*text++, stream);
        }
    }
    fclose(stream);
    return result;
}

char *pasted_behind_address(char *text)
{
    char *found = strstr(text, ADDRESS);
    return found ? found + strlen(ADDRESS) : NULL;
}

char *pasted_squeezed(char *text)
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

char *pasted_joined(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++)
        if (!isspace((unsigned char)*c))
            *to++ = *c;
    *to = '\0';
    return text;
}

/* ------------------------------------------------------------------------------- commands -- */

char *pasted_shell(const char *script)
{
    char *text = with_address(script);
    daemon_directory_write(tree, "build/pasted.sh", text, strlen(text));
    FILE *stream = popen("bash -e -o pipefail build/pasted.sh 2>&1 </dev/null", "r");
    assert_non_null(stream);
    char *output = NULL;
    size_t size = 0;
    if (getdelim(&output, &size, '\0', stream) < 0)
        *output = '\0';
    const int status = pclose(stream);
    if (status != 0)
        fail_msg("status %d of\n%s\nwhich wrote\n%s", status, text, output);
    free(text);
    return output;
}

char *pasted_files(void)
{
    return pasted_shell(
        "find . -path ./build -prune -o -type f -print0 | sort -z | xargs -0 cksum");
}

const char *pasted_files_before(void)
{
    return files_before;
}

/* -------------------------------------------------------------------------------- the page -- */

void pasted_read(struct pasted_page *page, const char *file)
{
    *page = (struct pasted_page){ .file = file, .text = manifest_file_text(file) };
    bool is_inside = false, only_blanks = false;
    char *rest = page->text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "```", 3) != 0) {
            if (is_inside)
                line[strlen(line)] = rest ? '\n' : '\0';
            else if (*line)
                only_blanks = false;
        } else if (is_inside) {
            line[0] = '\0';
            page->block_count++;
            is_inside = false;
            only_blanks = true;
        } else {
            assert_true(page->block_count < PASTED_BLOCKS_MAX);
            page->blocks[page->block_count] = (struct pasted_block){ line + 3, rest, only_blanks };
            is_inside = true;
        }
    }
    assert_false(is_inside);
}

void pasted_free(struct pasted_page *page)
{
    free(page->text);
    *page = (struct pasted_page){ 0 };
}

static bool is_run(const struct pasted_block *block)
{
    return strcmp(block->language, "sh") == 0
           && strncmp(block->text, run_line, strlen(run_line)) == 0;
}

bool pasted_is_command(const struct pasted_page *page, int i)
{
    return strcmp(page->blocks[i].language, "sh") == 0 && !is_run(&page->blocks[i]);
}

int pasted_run_block(const struct pasted_page *page)
{
    for (int i = 0; i < page->block_count; i++)
        if (is_run(&page->blocks[i]))
            return i;
    return -1;
}

const struct pasted_block *pasted_answer(const struct pasted_page *page, int i)
{
    if (i + 1 >= page->block_count || !page->blocks[i + 1].is_answer
        || pasted_is_command(page, i + 1))
        return NULL;
    return &page->blocks[i + 1];
}

/* ------------------------------------------------------------------------------ the daemon -- */

void pasted_start_as(const char *file)
{
    start_page = file;
}

/* Runs the commands of the page before its `make run`, and compares their output with the answers.
 * Returns the variables of that line; the caller frees them. */
static char *begin_page(void)
{
    struct pasted_page page;
    pasted_read(&page, start_page);
    const int run = pasted_run_block(&page);
    assert_true(run >= 0);
    for (int i = 0; i < run; i++) {
        const struct pasted_block *answer = pasted_answer(&page, i);
        if (!pasted_is_command(&page, i))
            continue;
        char *output = pasted_shell(page.blocks[i].text);
        if (answer)
            pasted_assert_text(&page, answer->text, pasted_squeezed(output));
        free(output);
    }
    char *variables = strdup(page.blocks[run].text + strlen(run_line));
    assert_non_null(variables);
    variables[strcspn(variables, "\n")] = '\0';
    pasted_free(&page);
    return variables;
}

/* The lines of `make serve`: all but the last are run, and the daemon is started with the arguments
 * in the last. */
static void serve(void)
{
    char *variables = start_page ? begin_page() : strdup(""), *command = NULL;
    assert_true(
        asprintf(&command, "make --no-print-directory -n serve LISTEN=127.0.0.1:0%s", variables)
        > 0);
    char *lines = pasted_shell(command);
    free(command);
    free(variables);
    start_page = NULL;
    char *last = strstr(lines, "exec build/attnd ");
    assert_non_null(last);
    char *begin = last;
    while (begin > lines && begin[-1] != '\n')
        begin--;
    *begin = '\0';
    free(pasted_shell(lines));
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

int pasted_start(void **state)
{
    char *command = NULL, address[64];
    program = realpath(daemon_program(), NULL);
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
    /* Variables of the make and of the runner that may have started this program. */
    static const char *const variables[] = { "MAKEFLAGS", "MAKELEVEL",       "MAKEOVERRIDES",
                                             "BUILD",     "ATTND_TEST_SLOW", "ATTND_TEST_SANDBOX" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    files_before = pasted_files();
    serve();
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    setenv("LISTEN", address, 1);
    return 0;
}

int pasted_stop(void **state)
{
    daemon_stop(&server);
    assert_int_equal(chdir(home), 0);
    setenv("ATTND", program, 1);
    free(program);
    daemon_directory_remove(tree);
    free(files_before);
    return 0;
}

/* --------------------------------------------------------------------------------- answers -- */

/* Whether two values are equal, numbers to six digits. If the shown string is "...", any value
 * is right. */
static bool json_equal(const cJSON *a, const cJSON *b)
{
    if (cJSON_IsString(b) && strcmp(b->valuestring, "...") == 0)
        return true;
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

/* Whether the text contains the parts of shown between its "...", one after the other. The first
 * part must begin the text. The last part must end it, unless shown ends with "...". */
static bool text_matches(const char *text, const char *shown)
{
    for (bool is_first = true;; is_first = false) {
        const char *dots = strstr(shown, "...");
        char part[4096];
        snprintf(part, sizeof part, "%.*s", dots ? (int)(dots - shown) : (int)strlen(shown), shown);
        pasted_squeezed(part);
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

void pasted_assert_json(const struct pasted_page *page, const char *shown, const char *output)
{
    cJSON *wanted = cJSON_Parse(shown), *got = cJSON_Parse(output);
    if (!wanted || !got || !json_equal(got, wanted))
        fail_msg("%s shows\n%s\nand the answer is\n%s", page->file, shown, output);
    cJSON_Delete(wanted);
    cJSON_Delete(got);
}

void pasted_assert_text(const struct pasted_page *page, const char *shown, const char *output)
{
    if (!text_matches(output, shown))
        fail_msg("%s shows\n%s\nand the answer is\n%s", page->file, shown, output);
}

static void assert_shown(const struct pasted_page *page, const struct pasted_block *answer,
                         char *output)
{
    if (strcmp(answer->language, "json") == 0) {
        pasted_assert_json(page, answer->text, output);
        return;
    }
    assert_string_equal(answer->language, "text");
    pasted_assert_text(page, pasted_squeezed(answer->text), pasted_squeezed(output));
}

int pasted_all(const struct pasted_page *page)
{
    int commands = 0;
    for (int i = 0; i < page->block_count; i++) {
        if (!pasted_is_command(page, i))
            continue;
        char *output = pasted_shell(page->blocks[i].text);
        const struct pasted_block *answer = pasted_answer(page, i);
        if (strstr(output, "\"error\"") && !(answer && strstr(answer->text, "\"error\"")))
            fail_msg("%s\nanswers\n%s", page->blocks[i].text, output);
        if (answer)
            assert_shown(page, answer, output);
        free(output);
        commands++;
    }
    return commands;
}
