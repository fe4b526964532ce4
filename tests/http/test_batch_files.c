/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch_files.c - attnd batch: the same bytes as over HTTP, for every operation; files that
 * are the same whatever ended the process, or cut it into parts; what it says of lines and files
 * that it cannot read or write. */
#include "answer.h"
#include "batch_command.h"
#include "daemon.h"
#include "fixture.h"
#include "openapi_calls.h"
#include "request_text.h"
#include "tensor_body.h"
#include "test.h"
#include "word_model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

/* ------------------------------------------------------------------------------ helpers -- */

static void write_requests(const char *name, const char *text)
{
    daemon_directory_write(directory, name, text, strlen(text));
}

/* The answer of a line, which must be there; the caller deletes it. */
static cJSON *answer_of(const char *out, int line)
{
    char *text = batch_file_text(out, "chunk-000000.jsonl"), *rest = NULL, id[32];
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

/* Sends the request of a line over HTTP. */
static struct http_response ask(const char *line, const char *path, const char *id,
                                const char *accept)
{
    char name[64];
    cJSON *request = cJSON_Parse(line);
    assert_non_null(request);
    snprintf(name, sizeof name, "X-Request-Id: %s", id);
    char *body = cJSON_PrintUnformatted(cJSON_GetObjectItem(request, "body"));
    const char *const headers[] = { "Content-Type: application/json", name, accept, NULL };
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = path, .body = body, .headers = headers });
    free(body);
    cJSON_Delete(request);
    return response;
}

/* The line of an answer with this body; the caller frees it. */
static char *line_of(const struct http_response *response, int number, const char *body)
{
    char *line = NULL;
    assert_true(asprintf(&line,
                         "{\"id\":\"line-%d\",\"custom_id\":\"call-%d\",\"response\":{"
                         "\"status_code\":%ld,\"request_id\":\"call-%d\",\"body\":%.*s},"
                         "\"error\":null}",
                         number, number, response->status, number, (int)strcspn(body, "\n"), body)
                > 0);
    return line;
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

/* Each operation's example, and the calls that provoke its other answers: once. */
static void write_all(struct many *many)
{
    if (many->count > 0)
        return;
    many->file = fopen(fixture_path("all"), "w");
    openapi_document = answer_get(&client, "/openapi.json");
    openapi_each_with(calls, sizeof calls / sizeof calls[0], 200, add_call, many);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        add_call(&calls[i], many);
    assert_int_equal(fclose(many->file), 0);
    cJSON_Delete(openapi_document);
    assert_true(many->count > 60);
}

/* Answers them into the folder, and calls expect for each request and answer. */
static void answer_all(const char *format, const char *out, void *context,
                       void (*expect)(void *context, const char *request, char *answer,
                                      const char *path, int number))
{
    static struct many many;
    char words[PATH_BYTES + 64], *answers_rest = NULL, *requests_rest = NULL;
    write_all(&many);
    snprintf(words, sizeof words, "--out OUT REQUESTS --models %s --format %s",
             fixture_path("models"), format);
    free(batch_command(words, "all", out, 3));
    char *answers = batch_file_text(out, "chunk-000000.jsonl");
    char *requests = batch_file_text("", "all");
    char *answer = strtok_r(answers, "\n", &answers_rest);
    char *request = strtok_r(requests, "\n", &requests_rest);
    for (int i = 1; i <= many.count; i++) {
        assert_true(answer && request);
        expect(context, request, answer, many.paths[i], i);
        answer = strtok_r(NULL, "\n", &answers_rest);
        request = strtok_r(NULL, "\n", &requests_rest);
    }
    assert_null(answer);
    free(answers);
    free(requests);
}

static void expect_line_of(const struct http_response *response, int number, const char *body,
                           char *answer, const char *path)
{
    char *expected = line_of(response, number, body);
    if (strcmp(path, "/v1/completions") == 0)
        for (int both = 0; both < 2; both++) {
            blank(both ? answer : expected, "\"id\":\"cmpl-", "\"");
            blank(both ? answer : expected, "\"created\":", ",");
        }
    if (strcmp(answer, expected) != 0)
        fail_msg("%s: over HTTP it is\n%s\nand in a batch\n%s", path, expected, answer);
    free(expected);
}

static void expect_equal(void *context, const char *request, char *answer, const char *path,
                         int number)
{
    char id[32];
    snprintf(id, sizeof id, "call-%d", number);
    struct http_response response = ask(request, path, id, NULL);
    *(int *)context += response.status == 200;
    expect_line_of(&response, number, response.body, answer, path);
    http_response_free(&response);
}

TEST(answers_are_those_over_http)
{
    int good = 0;
    answer_all("json", "all-out", &good, expect_equal);
    assert_true(good > 30);
}

/* The file of a chunk, as if it had come over HTTP. */
struct chunk {
    struct http_response file;
    cJSON *header;
    int json_count, seen; /* answers that are JSON; tensors that are those over HTTP */
};

static void open_chunk(struct chunk *chunk)
{
    static char headers[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-safetensors\r\n\r\n";
    chunk->file = (struct http_response){ .status = 200, .headers = headers };
    chunk->file.body =
        batch_file_bytes("all-tensors", "chunk-000000.safetensors", &chunk->file.body_size);
    assert_non_null(chunk->file.body);
    chunk->header = tensor_body_header(&chunk->file);
}

static void expect_tensor(struct chunk *chunk, const struct http_response *response,
                          const cJSON *header, const cJSON *tensor, const char *id)
{
    char name[256], *shape = cJSON_PrintUnformatted(cJSON_GetObjectItem(tensor, "shape"));
    const cJSON *offsets = cJSON_GetObjectItem(tensor, "data_offsets");
    const size_t size = (size_t)(cJSON_GetArrayItem(offsets, 1)->valuedouble
                                 - cJSON_GetArrayItem(offsets, 0)->valuedouble);
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItem(tensor, "dtype"));
    snprintf(name, sizeof name, "%s/%s", id, tensor->string);
    const char *one = tensor_body_find(response, header, tensor->string, dtype, shape);
    const char *other = tensor_body_find(&chunk->file, chunk->header, name, dtype, shape);
    if (memcmp(one, other, size) != 0)
        fail_msg("%s has other bits", name);
    const size_t number_bytes = (size_t)atoi(dtype + strcspn(dtype, "123456789")) / 8;
    if (number_bytes > 1)
        assert_int_equal((other - chunk->file.body) % (long)number_bytes, 0);
    chunk->seen++;
    free(shape);
}

/* An answer that is a file has its tensors in the chunk's, and its metadata in the line. */
static void expect_tensors(void *context, const char *request, char *answer, const char *path,
                           int number)
{
    struct chunk *chunk = context;
    char id[32], type[64];
    if (!chunk->header)
        open_chunk(chunk);
    snprintf(id, sizeof id, "call-%d", number);
    struct http_response response = ask(request, path, id, "Accept: application/x-safetensors");
    if (strcmp(http_response_header(&response, "Content-Type", type, sizeof type),
               "application/x-safetensors")
        != 0) {
        expect_line_of(&response, number, response.body, answer, path);
        chunk->json_count++;
        http_response_free(&response);
        return;
    }
    cJSON *header = tensor_body_header(&response);
    cJSON *metadata = cJSON_DetachItemFromObject(header, "__metadata__");
    char *body = cJSON_PrintUnformatted(metadata);
    expect_line_of(&response, number, body, answer, path);
    for (const cJSON *tensor = header->child; tensor; tensor = tensor->next)
        expect_tensor(chunk, &response, header, tensor, id);
    free(body);
    cJSON_Delete(metadata);
    cJSON_Delete(header);
    http_response_free(&response);
}

TEST(tensors_are_those_over_http)
{
    struct chunk chunk = { .seen = 0 };
    answer_all("safetensors", "all-tensors", &chunk, expect_tensors);
    assert_true(chunk.json_count > 30);
    assert_true(chunk.seen > 60);
    assert_int_equal(cJSON_GetArraySize(chunk.header), chunk.seen + 1); /* __metadata__ */
    cJSON_Delete(chunk.header);
    free(chunk.file.body);
}

/* ------------------------------------------------------------- killed, cut, without room -- */

#define SMALL "--out OUT REQUESTS --chunk 120"

TEST(killed_at_any_moment_it_goes_on_to_the_same_bytes)
{
    batch_kill_often("--format=json", 50);
}

/* The summary counts what earlier processes did. */
TEST(started_again_it_computes_nothing)
{
    batch_make_whole("--format=json");
    char *first = batch_command(SMALL, "many", "whole", 3);
    assert_non_null(strstr(first, "10 of the chunks were there already"));
    assert_non_null(strstr(first, "12 faults: 12 not_found"));
    assert_non_null(strstr(first, "line 8: not_found: "));
    batch_expect_said(first, "\n0 computed");
}

TEST(parts_together_are_the_whole)
{
    batch_make_whole("--format=json");
    free(batch_command(SMALL " --part 2/3", "many", "parts", 3));
    char *none = batch_file_text("parts", "chunk-000000.jsonl");
    char *own = batch_file_text("parts", "chunk-000002.jsonl");
    assert_null(none);
    assert_non_null(own);
    free(own);
    free(batch_command(SMALL " --part 0/3", "many", "parts", 3));
    batch_expect_said(batch_command(SMALL " --part=1/3", "many", "parts", 3),
                      "360 requests in 3 chunks");
    assert_int_equal(batch_expect_same("whole", "parts"), BATCH_LINES / BATCH_CHUNK);
    batch_expect_said(batch_command(SMALL " --part 70/71", "many", "none", 0),
                      "0 requests in 0 chunks");
}

/* Cuts into other numbers of parts may run at once, each over chunks that others write meanwhile.
 */
TEST(other_cuts_at_once_write_the_same)
{
    char command[4 * PATH_BYTES];
    batch_make_whole("--format=json");
    snprintf(command, sizeof command,
             "unset ATTND_TEST_SLOW ATTND_TEST_SANDBOX; D=%s; rm -rf $D/cuts; for n in 1 2 3 4 5 "
             "6; do %s batch $D/many --out $D/cuts "
             "--chunk 120 --part $((n - 1))/$n >/dev/null & done; wait",
             directory, daemon_program());
    for (int i = 0; i < 5; i++) {
        assert_int_equal(system(command), 0);
        assert_int_equal(batch_expect_same("whole", "cuts"), BATCH_LINES / BATCH_CHUNK);
    }
}

/* A file that may not grow: what a full disk says, and the same for a limit of sizes. */
TEST(without_room_it_says_so_and_goes_on_later)
{
    batch_make_whole("--format=json");
    char *text = batch_command_with_small_files(4, "many --out full --chunk 100", 1);
    batch_expect_said(text,
                      "chunk-000000.jsonl cannot be written: File too large; finished chunks stay: "
                      "make room, and start the batch again");
    assert_int_equal(daemon_directory_count(fixture_path("full")), 1); /* batch.json */
    free(batch_command("--out OUT REQUESTS --chunk 100", "many", "full", 3));
    free(batch_command("--out OUT REQUESTS --chunk 100", "many", "full-whole", 3));
    assert_int_equal(batch_expect_same("full", "full-whole"), BATCH_LINES / 100);
}

TEST(what_the_queue_has_no_room_for_waits)
{
    batch_make_whole("--format=json");
    free(batch_command(SMALL " --queue-max 2 --workers 3", "many", "queue", 3));
    assert_int_equal(batch_expect_same("whole", "queue"), BATCH_LINES / BATCH_CHUNK);
    free(batch_command(SMALL " --memory-max 1MiB", "many", "memory", 3));
    assert_int_equal(batch_expect_same("whole", "memory"), BATCH_LINES / BATCH_CHUNK);
}

/* Each line alone has room, two have not. The first one is handed in alone, and others join it. */
TEST(what_memory_has_no_room_for_beside_others_waits)
{
    FILE *file = fopen(fixture_path("wide"), "w");
    assert_non_null(file);
    for (int i = 0; i < 24; i++) {
        struct request_text query = { 0 };
        request_text_random(&query, (uint64_t)i, 160, 2);
        fprintf(file,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/attention\",\"body\":"
                "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":%s}}\n",
                i, query.data);
        free(query.data);
    }
    assert_int_equal(fclose(file), 0);
    free(batch_command("--out OUT REQUESTS", "wide", "wide-whole", 0));
    static const char *const outs[] = { "wide-0", "wide-1", "wide-2", "wide-3", "wide-4" };
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        free(batch_command("--out OUT REQUESTS --memory-max 1MiB --workers 3", "wide", outs[i], 0));
        assert_int_equal(batch_expect_same("wide-whole", outs[i]), 1);
    }
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
    char *text = batch_command(words, "wrong", "wrong-out", 3);
    assert_non_null(strstr(text, "22 requests in 1 chunk"));
    assert_non_null(strstr(text, "21 faults: 5 json, "));
    batch_expect_said(text, "and more: grep -hv '\"status_code\":200,' ");
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
    char *text = batch_command("--out OUT REQUESTS", "rude", "rude-out", 3);
    assert_null(strpbrk(text, "\x1b\x7f\x9b"));
    batch_expect_said(
        text, "line 1: not_found: url is '/v1/?[2J??31m??line 9: \xc3\xa9'; a batch takes ");
    expect_line("rude-out", 1, 404, "not_found",
                "url is '/v1/\x1b[2J\xc2\x9b"
                "31m\x7f\nline 9: \xc3\xa9'");
}

TEST(files_and_folders_that_do_not_do)
{
    batch_make_whole("--format=json");
    write_requests("empty", "");
    write_requests("one", HEAD("a", "/v1/attention") DEMO "}\n");
    write_requests("plain", "x");
    batch_expect_said(batch_command("--out OUT REQUESTS", "empty", "empty-out", 0),
                      "0 requests in 0 chunks");
    batch_expect_said(batch_command("--out OUT REQUESTS", "missing", "m-out", 1),
                      "missing: No such file");
    assert_int_not_equal(access(fixture_path("m-out"), F_OK), 0);
    batch_expect_said(batch_command("--out OUT REQUESTS", "models", "m-out", 1),
                      "is no plain file");
    assert_int_equal(mkfifo(fixture_path("pipe"), 0666), 0);
    batch_expect_said(batch_command("--out OUT REQUESTS", "pipe", "m-out", 1), "is no plain file");
    free(batch_command("--out OUT REQUESTS", "one", "no-file", 0));
    assert_int_equal(remove(fixture_path("no-file/chunk-000000.jsonl")), 0);
    assert_int_equal(mkdir(fixture_path("no-file/chunk-000000.jsonl"), 0777), 0);
    batch_expect_said(batch_command("--out OUT REQUESTS", "one", "no-file", 1),
                      "the file of chunk 0 cannot be read: Is a directory");
    batch_expect_said(batch_command("--out OUT REQUESTS", "one", "plain", 1),
                      "plain cannot be written: Not a dir");
    batch_expect_said(batch_command("--out OUT REQUESTS", "one", "no/where", 1),
                      "cannot be made: No such file");
    batch_expect_said(batch_command("--out /proc/self REQUESTS", "one", "x", 1), "/proc/self");
    batch_expect_said(batch_command("--out OUT REQUESTS", "one", "whole", 1),
                      "has the answers of another batch");
    batch_expect_said(batch_command(SMALL "0", "many", "whole", 1),
                      "has the answers of another batch");
    batch_expect_said(batch_command("--out OUT", "one", "x", 2), "usage: attnd batch --out DIR");
    batch_expect_said(batch_command("REQUESTS", "one", "x", 2), "usage: attnd batch --out DIR");
    batch_expect_said(batch_command("--out", "one", "x", 2), "--out needs a value");
    batch_expect_said(batch_command(SMALL " --part 3/3", "one", "x", 2), "I is from 0 to N - 1");
    batch_expect_said(batch_command(SMALL " --part 3", "one", "x", 2), "I/N as in 3/16");
    batch_expect_said(batch_command(SMALL " --format npy", "one", "x", 2),
                      "--format: 'npy' came; expected json or safetensors");
    batch_expect_said(batch_command(SMALL "x", "one", "x", 2), "--chunk: '120x' came");
    batch_expect_said(batch_command(SMALL " --chunks 3", "one", "x", 2),
                      "--chunks: there is no such flag");
    batch_expect_said(batch_command("--help", "one", "x", 0), "  --part I/N ");
}

/* A file system's lock on the part's byte of batch.json. */
TEST(a_part_is_computed_by_one_process)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };
    char path[PATH_BYTES];
    batch_make_whole("--format=json");
    snprintf(path, sizeof path, "%s/batch.json", fixture_path("whole"));
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(fcntl(file, F_OFD_SETLK, &lock), 0);
    batch_expect_said(batch_command(SMALL " --part 1/3", "many", "whole", 1),
                      "another attnd batch computes part 1");
    free(batch_command(SMALL " --part 0/3", "many", "whole", 3));
    close(file);
    free(batch_command(SMALL " --part 1/3", "many", "whole", 3));
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
