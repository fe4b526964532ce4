/* SPDX-License-Identifier: Apache-2.0 */
/* batch_command.c - see batch_command.h. */
#include "batch_command.h"

#include "fixture.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 24, PATH_BYTES = 512 };

static struct daemon_result run_words(const char *words, const char *requests, const char *out)
{
    char text[PATH_BYTES], requests_path[PATH_BYTES], out_path[PATH_BYTES];
    const char *arguments[ARGUMENTS_MAX] = { "batch" };
    int count = 1;
    char *rest = NULL;
    snprintf(text, sizeof text, "%s", words);
    snprintf(requests_path, sizeof requests_path, "%s", fixture_path(requests));
    snprintf(out_path, sizeof out_path, "%s", fixture_path(out));
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = strcmp(word, "REQUESTS") == 0 ? requests_path
                             : strcmp(word, "OUT") == 0    ? out_path
                                                           : word;
    return daemon_command(arguments, NULL);
}

char *batch_command(const char *words, const char *requests, const char *out, int status)
{
    struct daemon_result result = run_words(words, requests, out);
    if (result.exit_code != status)
        fail_msg("attnd batch %s ended with %d:\n%s%s", words, result.exit_code, result.output,
                 result.errors);
    char *text = strdup(status == 1 || status == 2 ? result.errors : result.output);
    assert_non_null(text);
    daemon_result_free(&result);
    return text;
}

void batch_expect_said(char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" is not in:\n%s", words, text);
    free(text);
}

char *batch_command_with_small_files(int blocks, const char *words, int status)
{
    char *command = NULL, *text = NULL, line[1024];
    size_t size = 0;
    assert_true(asprintf(&command,
                         "unset ATTND_TEST_SLOW ATTND_TEST_SANDBOX; program=$(realpath %s); "
                         "cd %s; ulimit -f %d; exec $program batch %s 2>&1",
                         daemon_program(), directory, blocks, words)
                > 0);
    FILE *said = popen(command, "r"), *all = open_memstream(&text, &size);
    assert_true(said && all);
    while (fgets(line, sizeof line, said))
        fputs(line, all);
    fclose(all);
    assert_int_equal(WEXITSTATUS(pclose(said)), status);
    free(command);
    return text;
}

char *batch_file_bytes(const char *folder, const char *name, size_t *size)
{
    char path[PATH_BYTES], block[4096], *bytes = NULL;
    snprintf(path, sizeof path, "%s/%s", fixture_path(folder), name);
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    FILE *all = open_memstream(&bytes, size);
    assert_non_null(all);
    for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
        fwrite(block, 1, got, all);
    fclose(file);
    fclose(all);
    assert_non_null(bytes);
    return bytes;
}

char *batch_file_text(const char *folder, const char *name)
{
    size_t size;
    char *text = batch_file_bytes(folder, name, &size);
    if (text)
        assert_int_equal(strlen(text), size);
    return text;
}

/* Whether both have the file, the same; false: none has it. */
static bool is_same_file(const char *folder, const char *other, const char *name)
{
    size_t size = 0, size_of_other = 0;
    char *bytes = batch_file_bytes(folder, name, &size);
    char *same = batch_file_bytes(other, name, &size_of_other);
    const bool is_there = bytes != NULL;
    if (is_there != (same != NULL)
        || (is_there && (size != size_of_other || memcmp(bytes, same, size) != 0)))
        fail_msg("%s differs in %s and %s", name, folder, other);
    free(bytes);
    free(same);
    return is_there;
}

int batch_expect_same(const char *folder, const char *other)
{
    char name[64];
    int chunk = 0;
    for (;; chunk++) {
        snprintf(name, sizeof name, "chunk-%06d.safetensors", chunk);
        const bool has_tensors = is_same_file(folder, other, name);
        snprintf(name, sizeof name, "chunk-%06d.jsonl", chunk);
        if (!is_same_file(folder, other, name)) {
            assert_false(has_tensors);
            break;
        }
    }
    assert_true(is_same_file(folder, other, "batch.json"));
    return chunk;
}

void batch_write_many(const char *name, int count)
{
    FILE *file = fopen(fixture_path(name), "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file,
                "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/attention\",\"body\":"
                "{\"model\":\"%s\",\"query\":[[%d,0,0],[0,1,%d.5]]}}\n",
                i, i % 100 == 7 ? "nobody" : "demo", i, i % 13);
    assert_int_equal(fclose(file), 0);
}

/* Kills a run once; true: it had ended before. */
static bool is_over_when_killed(const char *flag, double seconds)
{
    char requests[PATH_BYTES], out[PATH_BYTES];
    snprintf(requests, sizeof requests, "%s", fixture_path("many"));
    snprintf(out, sizeof out, "%s", fixture_path("killed"));
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        unsetenv("ATTND_TEST_SLOW"); /* of the runner: no flag of the program has this name */
        unsetenv("ATTND_TEST_SANDBOX");
        execl(daemon_program(), "attnd", "batch", requests, "--out", out, "--chunk=120", flag,
              (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    daemon_pause(seconds);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 3);
    return WIFEXITED(status);
}

/* batch_command() with chunks of 120 lines; the caller frees what it said. */
static char *run_small(const char *flag, const char *out)
{
    char words[PATH_BYTES];
    snprintf(words, sizeof words, "--out OUT REQUESTS --chunk %d %s", BATCH_CHUNK, flag);
    return batch_command(words, "many", out, 3);
}

void batch_make_whole(const char *flag)
{
    if (access(fixture_path("whole"), F_OK) == 0)
        return;
    batch_write_many("many", BATCH_LINES);
    batch_expect_said(run_small(flag, "whole"), "1200 requests in 10 chunks");
}

void batch_kill_often(const char *flag, int kills)
{
    unsigned seed = 20;
    int killed = 0, amid = 0;
    batch_make_whole(flag);
    const double begun = daemon_now();
    free(run_small(flag, "again"));
    const double seconds = daemon_now() - begun;
    while (killed < kills) {
        if (is_over_when_killed(flag, seconds * (double)rand_r(&seed) / RAND_MAX)) {
            batch_expect_same("whole", "killed");
            char *out = strdup(fixture_path("killed"));
            daemon_directory_remove(out);
            continue;
        }
        killed++;
        char *first = batch_file_text("killed", "chunk-000000.jsonl");
        char *last = batch_file_text("killed", "chunk-000009.jsonl");
        amid += first && !last;
        free(first);
        free(last);
    }
    free(run_small(flag, "killed"));
    assert_int_equal(batch_expect_same("whole", "killed"), BATCH_LINES / BATCH_CHUNK);
    assert_true(amid > 0);
}
