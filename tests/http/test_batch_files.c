/* test_batch_files.c - attnd batch: the same bytes as over HTTP, for every operation; files that
 * are the same whatever ended the process, or cut it into parts; what it says of lines and files
 * that it cannot read or write. */
#include "answer.h"
#include "daemon.h"
#include "fixture.h"
#include "openapi_calls.h"
#include "test.h"
#include "word_model.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 1200, CHUNK = 120, ARGUMENTS_MAX = 24, PATH_BYTES = 512, KILLS = 50 };

/* ------------------------------------------------------------------------------ helpers -- */

/* Runs attnd batch; REQUESTS and OUT among the words stand for the files of those names. */
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

/* Runs it, which must end with the status; returns what it printed, the caller's. */
static char *run(const char *words, const char *requests, const char *out, int status)
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

static void expect_said(char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" is not in:\n%s", words, text);
    free(text);
}

/* A whole file of the fixture's directory; NULL: there is none. The caller frees it. */
static char *file_text(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", fixture_path(folder), name);
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t capacity = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &capacity, '\0', file) < 0 && text)
        text[0] = '\0';
    fclose(file);
    assert_non_null(text);
    return text;
}

/* The files of both folders are the same, byte for byte; returns how many chunks there are. */
static int expect_same(const char *folder, const char *other)
{
    char name[64];
    int chunk = 0;
    for (;; chunk++) {
        snprintf(name, sizeof name, "chunk-%06d.jsonl", chunk);
        char *text = file_text(folder, name), *same = file_text(other, name);
        if (!text && !same)
            break;
        if (!text || !same || strcmp(text, same) != 0)
            fail_msg("%s differs in %s and %s", name, folder, other);
        free(text);
        free(same);
    }
    char *text = file_text(folder, "batch.json"), *same = file_text(other, "batch.json");
    assert_string_equal(text, same);
    free(text);
    free(same);
    return chunk;
}

static void write_requests(const char *name, const char *text)
{
    daemon_directory_write(directory, name, text, strlen(text));
}

/* Small attentions, each with other numbers, and a fault now and then. */
static void write_many(const char *name, int count)
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

/* The answer of a line, which must be there; the caller deletes it. */
static cJSON *answer_of(const char *out, int line)
{
    char *text = file_text(out, "chunk-000000.jsonl"), *rest = NULL, id[32];
    cJSON *found = NULL;
    assert_non_null(text);
    snprintf(id, sizeof id, "line-%d", line);
    for (char *at = strtok_r(text, "\n", &rest); at && !found; at = strtok_r(NULL, "\n", &rest)) {
        cJSON *answer = cJSON_Parse(at);
        assert_non_null(answer);
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(answer, "id")), id) == 0)
            found = answer;
        else
            cJSON_Delete(answer);
    }
    free(text);
    assert_non_null(found);
    return found;
}

/* ---------------------------------------------------------------------- equal to HTTP -- */

/* Puts a 0 in place of what stands behind name: a completion over HTTP says when it was, and has an
 * id that no other has. */
static void blank(char *text, const char *name, const char *ends)
{
    char *at = strstr(text, name);
    if (!at)
        return;
    at += strlen(name);
    char *end = at + strcspn(at, ends);
    *at = '0';
    memmove(at + 1, end, strlen(end) + 1);
}

static void expect_equal(char *line, const char *path, int number)
{
    char id[32];
    cJSON *request = cJSON_Parse(line);
    assert_non_null(request);
    snprintf(id, sizeof id, "call-%d", number);
    char header[64];
    snprintf(header, sizeof header, "X-Request-Id: %s", id);
    char *body = cJSON_PrintUnformatted(cJSON_GetObjectItem(request, "body"));
    const char *const headers[] = { "Content-Type: application/json", header, NULL };
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = path, .body = body, .headers = headers });
    char *expected = NULL;
    response.body[strcspn(response.body, "\n")] = '\0';
    assert_true(asprintf(&expected,
                         "{\"id\":\"line-%d\",\"custom_id\":\"%s\",\"response\":{\"status_code\":"
                         "%ld,\"request_id\":\"%s\",\"body\":%s},\"error\":null}",
                         number, id, response.status, id, response.body)
                > 0);
    http_response_free(&response);
    free(body);
    cJSON_Delete(request);
    daemon_directory_write(directory, "expected", expected, strlen(expected));
    free(expected);
}

static bool is_of_batch(const struct openapi_call *call)
{
    static const char *const OTHERS[] = { "{", "/v1/sessions", "/v2", "/infer" };
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        if (strstr(call->pattern, OTHERS[i]))
            return false;
    return strcmp(call->method, "POST") == 0 && call->body && call->body[0] == '{'
           && cJSON_IsObject(openapi_operation(call)) && !call->header
           && !strstr(call->body, "\"keep\"") && !strchr(call->body, '@');
}

struct many {
    FILE *file;
    int count;
    char *paths[256];
};

static void add_call(const struct openapi_call *call, void *context)
{
    struct many *many = context;
    cJSON *body = is_of_batch(call) ? cJSON_Parse(call->body) : NULL;
    if (!body)
        return;
    assert_true(many->count < 255);
    char *text = cJSON_PrintUnformatted(body);
    many->paths[++many->count] = strdup(call->pattern);
    fprintf(many->file,
            "{\"custom_id\":\"call-%d\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n",
            many->count, call->pattern, text);
    free(text);
    cJSON_Delete(body);
}

/* Each operation's example, and the calls that provoke its other answers. */
TEST(answers_are_those_over_http)
{
    struct many many = { .file = fopen(fixture_path("all"), "w") };
    openapi_document = answer_get(&client, "/openapi.json");
    openapi_each_with(calls, sizeof calls / sizeof calls[0], 200, add_call, &many);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        add_call(&calls[i], &many);
    assert_int_equal(fclose(many.file), 0);
    assert_true(many.count > 60);
    char words[PATH_BYTES + 32];
    snprintf(words, sizeof words, "--out OUT REQUESTS --models %s", fixture_path("models"));
    free(run(words, "all", "all-out", 3));
    char *answers = file_text("all-out", "chunk-000000.jsonl");
    char *requests = file_text("", "all");
    char *answers_rest = NULL, *requests_rest = NULL;
    char *answer = strtok_r(answers, "\n", &answers_rest);
    char *request = strtok_r(requests, "\n", &requests_rest);
    int good = 0;
    for (int i = 1; i <= many.count; i++) {
        assert_true(answer && request);
        expect_equal(request, many.paths[i], i);
        char *expected = file_text("", "expected");
        good += strstr(answer, "\"status_code\":200,") != NULL;
        if (strcmp(many.paths[i], "/v1/completions") == 0)
            for (int both = 0; both < 2; both++) {
                blank(both ? answer : expected, "\"id\":\"cmpl-", "\"");
                blank(both ? answer : expected, "\"created\":", ",");
            }
        if (strcmp(answer, expected) != 0)
            fail_msg("%s\nis over HTTP\n%s\nand in a batch\n%s", request, expected, answer);
        free(expected);
        free(many.paths[i]);
        answer = strtok_r(NULL, "\n", &answers_rest);
        request = strtok_r(NULL, "\n", &requests_rest);
    }
    assert_null(answer);
    assert_true(good > 30);
    free(answers);
    free(requests);
    cJSON_Delete(openapi_document);
}

/* ------------------------------------------------------------- killed, cut, without room -- */

#define SMALL "--out OUT REQUESTS --chunk 120"

static void make_whole(void)
{
    if (access(fixture_path("whole"), F_OK) == 0)
        return;
    write_many("many", LINES);
    expect_said(run(SMALL, "many", "whole", 3), "1200 requests in 10 chunks");
}

/* Kills it once, somewhere in the time that a whole run takes; true: it had ended before. */
static bool is_over_when_killed(unsigned *seed, double seconds)
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
        execl(daemon_program(), "attnd", "batch", requests, "--out", out, "--chunk", "120",
              (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    daemon_pause(seconds * (double)rand_r(seed) / RAND_MAX);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 3);
    return WIFEXITED(status);
}

TEST(killed_at_any_moment_it_goes_on_to_the_same_bytes)
{
    unsigned seed = 20;
    int killed = 0, amid = 0;
    make_whole();
    const double begun = daemon_now();
    free(run(SMALL, "many", "again", 3));
    const double seconds = daemon_now() - begun;
    while (killed < KILLS) {
        if (is_over_when_killed(&seed, seconds)) {
            assert_int_equal(expect_same("whole", "killed"), LINES / CHUNK);
            char *out = strdup(fixture_path("killed"));
            daemon_directory_remove(out);
            continue;
        }
        killed++;
        char *first = file_text("killed", "chunk-000000.jsonl");
        char *last = file_text("killed", "chunk-000009.jsonl");
        amid += first && !last;
        free(first);
        free(last);
    }
    free(run(SMALL, "many", "killed", 3));
    assert_int_equal(expect_same("whole", "killed"), LINES / CHUNK);
    assert_true(amid > 0);
}

/* The summary counts what earlier processes did. */
TEST(started_again_it_computes_nothing)
{
    make_whole();
    char *first = run(SMALL, "many", "whole", 3);
    assert_non_null(strstr(first, "10 of the chunks were there already"));
    assert_non_null(strstr(first, "12 faults: 12 not_found"));
    assert_non_null(strstr(first, "line 8: not_found: "));
    expect_said(first, "\n0 computed");
}

TEST(parts_together_are_the_whole)
{
    make_whole();
    free(run(SMALL " --part 2/3", "many", "parts", 3));
    char *none = file_text("parts", "chunk-000000.jsonl");
    char *own = file_text("parts", "chunk-000002.jsonl");
    assert_null(none);
    assert_non_null(own);
    free(own);
    free(run(SMALL " --part 0/3", "many", "parts", 3));
    expect_said(run(SMALL " --part=1/3", "many", "parts", 3), "360 requests in 3 chunks");
    assert_int_equal(expect_same("whole", "parts"), LINES / CHUNK);
    expect_said(run(SMALL " --part 70/71", "many", "none", 0), "0 requests in 0 chunks");
}

/* Cuts into other numbers of parts may run at once, each over chunks that others write meanwhile.
 */
TEST(other_cuts_at_once_write_the_same)
{
    char command[4 * PATH_BYTES];
    make_whole();
    snprintf(command, sizeof command,
             "cd %s && rm -rf cuts; for n in 1 2 3 4 5 6; do %s batch many --out cuts --chunk 120 "
             "--part $((n - 1))/$n >/dev/null & done; wait",
             directory, daemon_program());
    for (int i = 0; i < 5; i++) {
        assert_int_equal(system(command), 0);
        assert_int_equal(expect_same("whole", "cuts"), LINES / CHUNK);
    }
}

/* A file that may not grow: what a full disk says, and the same for a limit of sizes. */
TEST(without_room_it_says_so_and_goes_on_later)
{
    char command[4 * PATH_BYTES];
    make_whole();
    snprintf(command, sizeof command,
             "unset ATTND_TEST_SLOW ATTND_TEST_SANDBOX; ulimit -f 4; exec %s batch %s --out "
             "%s/full --chunk 100",
             daemon_program(), fixture_path("many"), directory);
    FILE *errors = NULL;
    char line[1024] = "", *text = NULL;
    size_t size = 0;
    assert_true(strlen(command) + 8 < sizeof command);
    strcat(command, " 2>&1");
    errors = popen(command, "r");
    assert_non_null(errors);
    FILE *all = open_memstream(&text, &size);
    while (fgets(line, sizeof line, errors))
        fputs(line, all);
    fclose(all);
    assert_int_equal(WEXITSTATUS(pclose(errors)), 1);
    expect_said(text, "chunk-000000.jsonl cannot be written: File too large; finished chunks stay: "
                      "make room, and start the batch again");
    assert_int_equal(daemon_directory_count(fixture_path("full")), 1); /* batch.json */
    free(run("--out OUT REQUESTS --chunk 100", "many", "full", 3));
    free(run("--out OUT REQUESTS --chunk 100", "many", "full-whole", 3));
    assert_int_equal(expect_same("full", "full-whole"), LINES / 100);
}

TEST(what_the_queue_has_no_room_for_waits)
{
    make_whole();
    free(run(SMALL " --queue-max 2 --workers 3", "many", "queue", 3));
    assert_int_equal(expect_same("whole", "queue"), LINES / CHUNK);
    free(run(SMALL " --memory-max 1MiB", "many", "memory", 3));
    assert_int_equal(expect_same("whole", "memory"), LINES / CHUNK);
}

/* ---------------------------------------------------------------- lines that are wrong -- */

static void expect_line(const char *out, int line, int status, const char *code, const char *words)
{
    cJSON *answer = answer_of(out, line);
    const cJSON *response = cJSON_GetObjectItem(answer, "response");
    const cJSON *body = cJSON_GetObjectItem(response, "body");
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItem(body, "error"));
    assert_int_equal(cJSON_GetObjectItem(response, "status_code")->valueint, status);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(body, "code")), code);
    if (!strstr(error, words))
        fail_msg("line %d: %s", line, error);
    cJSON_Delete(answer);
}

#define HEAD(id, path)                                                                             \
    "{\"custom_id\":\"" id "\",\"method\":\"POST\",\"url\":\"" path "\",\"body\":"
#define DEMO "{\"model\":\"demo\",\"query\":[[1,0,0]]}"

TEST(each_wrong_line_is_a_fault_of_its_own)
{
    static const struct {
        const char *text;
        int status;
        const char *code, *words;
    } LINES_OF[] = {
        { "nothing", 400, "json", "expected an object, got 'n' at byte 0" },
        { HEAD("a", "/v1/attention") DEMO, 400, "json", "but the text ends" },
        { HEAD("b", "/v1/attention") DEMO "}}", 400, "json", "expected the end" },
        { HEAD("c", "/v1/attention") "{\"query\":[1}}}", 400, "json", "expected ']'" },
        { HEAD("d", "/v1/attention") "[1]}", 400, "type", "body is no object" },
        { HEAD("e", "/v1/attention") "{\"query\":[1,]}}", 400, "json", "at byte 12" },
        { HEAD("f", "/v1/nowhere") DEMO "}", 404, "not_found", "a batch takes /v1/attention, " },
        { HEAD("g", "/v1/sessions") DEMO "}", 404, "not_found", "url is '/v1/sessions'" },
        { HEAD("h", "/v1/attention") "{\"model\":\"no\"}}", 404, "not_found", "'no'" },
        { "{\"custom_id\":\"i\",\"method\":\"GET\",\"url\":\"/v1/attention\",\"body\":{}}", 405,
          "method", "/v1/attention takes POST" },
        { "{\"custom_id\":7,\"method\":\"POST\",\"url\":\"/v1/attention\",\"body\":{}}", 400,
          "type", "custom_id is no string" },
        { "{\"custom_id\":\"k\",\"url\":\"/v1/attention\",\"body\":{}}", 400, "field",
          "there is no method" },
        { "{\"id\":\"k\"}", 400, "field", "unknown field 'id'" },
        { HEAD("same", "/v1/softmax") "{\"logits\":[[1]]}}", 400, "field", "logits" },
        { HEAD("same", "/v1/softmax") "{}}", 400, "duplicate", "has come before" },
        { "{\"custom_id\":\"m\",\"custom_id\":\"n\"}", 400, "duplicate", "custom_id" },
        { "{\"custom_id\":\"\"}", 400, "length", "custom_id has 0 bytes" },
        { "{\"custom_id\":\"\xff\"}", 400, "type", "is not UTF-8" },
        { "{\"custom_id\":\"\\u0000\"}", 400, "type", "U+0000" },
        { HEAD("keeps", "/v1/trace") "{\"model\":\"words\",\"text\":\"the cat\",\"keep\":\"5m\"}}",
          400, "option", "a batch ends with its answers" },
    };
    enum { COUNT = sizeof LINES_OF / sizeof LINES_OF[0] };
    FILE *file = fopen(fixture_path("wrong"), "w");
    for (int i = 0; i < COUNT; i++)
        fprintf(file, "%s\r\n \n", LINES_OF[i].text); /* and a blank one */
    fprintf(file, HEAD("long", "/v1/attention") "{\"query\":[");
    for (int i = 0; i < 200000; i++)
        fputs("1,", file);
    fprintf(file, "1]}}\n" HEAD("good", "/v1/attention") DEMO "}"); /* no line feed at the end */
    assert_int_equal(fclose(file), 0);
    char words[PATH_BYTES + 64];
    snprintf(words, sizeof words, "--out OUT REQUESTS --body-max 64KiB --models %s",
             fixture_path("models"));
    char *text = run(words, "wrong", "wrong-out", 3);
    assert_non_null(strstr(text, "22 requests in 1 chunk"));
    assert_non_null(strstr(text, "21 faults: 5 json, "));
    expect_said(text, "and more: grep -hv '\"status_code\":200,' ");
    for (int i = 0; i < COUNT; i++)
        expect_line("wrong-out", 2 * i + 1, LINES_OF[i].status, LINES_OF[i].code,
                    LINES_OF[i].words);
    expect_line("wrong-out", 2 * COUNT + 1, 413, "too_large", "the line is longer than 131072");
    cJSON *good = answer_of("wrong-out", 2 * COUNT + 2);
    const cJSON *response = cJSON_GetObjectItem(good, "response");
    assert_int_equal(cJSON_GetObjectItem(response, "status_code")->valueint, 200);
    cJSON_Delete(good);
}

/* What a terminal would obey, and what would look like a line of the summary. */
TEST(the_summary_shows_a_line_for_each_fault)
{
    write_requests("rude",
                   HEAD("a", "/v1/\\u001b[2J\\u009b31m\\u007f\\nline 9: \xc3\xa9") DEMO "}\n");
    char *text = run("--out OUT REQUESTS", "rude", "rude-out", 3);
    assert_null(strpbrk(text, "\x1b\x7f\x9b"));
    expect_said(text,
                "line 1: not_found: url is '/v1/?[2J??31m??line 9: \xc3\xa9'; a batch takes ");
    expect_line("rude-out", 1, 404, "not_found",
                "url is '/v1/\x1b[2J\xc2\x9b"
                "31m\x7f\nline 9: \xc3\xa9'");
}

TEST(files_and_folders_that_do_not_do)
{
    make_whole();
    write_requests("empty", "");
    write_requests("one", HEAD("a", "/v1/attention") DEMO "}\n");
    write_requests("plain", "x");
    expect_said(run("--out OUT REQUESTS", "empty", "empty-out", 0), "0 requests in 0 chunks");
    expect_said(run("--out OUT REQUESTS", "missing", "m-out", 1), "missing: No such file");
    assert_int_not_equal(access(fixture_path("m-out"), F_OK), 0);
    expect_said(run("--out OUT REQUESTS", "models", "m-out", 1), "is no plain file");
    assert_int_equal(mkfifo(fixture_path("pipe"), 0666), 0);
    expect_said(run("--out OUT REQUESTS", "pipe", "m-out", 1), "is no plain file");
    free(run("--out OUT REQUESTS", "one", "no-file", 0));
    assert_int_equal(remove(fixture_path("no-file/chunk-000000.jsonl")), 0);
    assert_int_equal(mkdir(fixture_path("no-file/chunk-000000.jsonl"), 0777), 0);
    expect_said(run("--out OUT REQUESTS", "one", "no-file", 1),
                "the file of chunk 0 cannot be read: Is a directory");
    expect_said(run("--out OUT REQUESTS", "one", "plain", 1), "plain cannot be written: Not a dir");
    expect_said(run("--out OUT REQUESTS", "one", "no/where", 1), "cannot be made: No such file");
    expect_said(run("--out /proc/self REQUESTS", "one", "x", 1), "/proc/self");
    expect_said(run("--out OUT REQUESTS", "one", "whole", 1), "has the answers of another batch");
    expect_said(run(SMALL "0", "many", "whole", 1), "has the answers of another batch");
    expect_said(run("--out OUT", "one", "x", 2), "usage: attnd batch --out DIR");
    expect_said(run("REQUESTS", "one", "x", 2), "usage: attnd batch --out DIR");
    expect_said(run("--out", "one", "x", 2), "--out needs a value");
    expect_said(run(SMALL " --part 3/3", "one", "x", 2), "I is from 0 to N - 1");
    expect_said(run(SMALL " --part 3", "one", "x", 2), "I/N as in 3/16");
    expect_said(run(SMALL "x", "one", "x", 2), "--chunk: '120x' came");
    expect_said(run(SMALL " --chunks 3", "one", "x", 2), "--chunks: there is no such flag");
    expect_said(run("--help", "one", "x", 0), "  --part I/N ");
}

/* A file system's lock on the part's byte of batch.json. */
TEST(a_part_is_computed_by_one_process)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };
    char path[PATH_BYTES];
    make_whole();
    snprintf(path, sizeof path, "%s/batch.json", fixture_path("whole"));
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(fcntl(file, F_OFD_SETLK, &lock), 0);
    expect_said(run(SMALL " --part 1/3", "many", "whole", 1),
                "another attnd batch computes part 1");
    free(run(SMALL " --part 0/3", "many", "whole", 3));
    close(file);
    free(run(SMALL " --part 1/3", "many", "whole", 3));
}

static int start(void **state)
{
    directory = daemon_directory_create();
    assert_int_equal(mkdir(fixture_path("models"), 0777), 0);
    word_model_make(fixture_path("models/words"), word_model_tokenizer);
    word_model_make_judge(fixture_path("models/judge"));
    fixture_serve("--models", fixture_path("models"));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
