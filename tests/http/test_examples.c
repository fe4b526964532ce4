/* SPDX-License-Identifier: Apache-2.0 */
/* test_examples.c - runs the programs in examples/ against the daemon, as a reader would
 * run them. */
#include "answer.h"
#include "daemon.h"
#include "example.h"
#include "manifest.h"
#include "skip.h"
#include "stub_collector.h"
#include "tensor_file.h"
#include "test.h"

#include <cjson/cJSON.h>
#include <zlib.h>

static struct daemon server; /* clients can put models */
static struct daemon teller; /* serves examples/models */
static char *directory;

/* Each French word must have looked at the English one that it translates, in both models. */
TEST(encoder_decoder)
{
    static const char *const pairs[] = {
        "L' <- The", "accord <- agreement",    "sur <- on",
        "la <- the", "zone <- Area",           "économique <- Economic",
        "a <- was",  "européenne <- European", "été <- was",
        "en <- in",  "signé <- signed",        "août <- August",
        ". <- .",    "1992 <- 1992",
    };
    static char output[EXAMPLE_OUTPUT_BYTES];
    example_run("examples/encoder-decoder.sh", &server, output);
    char *concat = strstr(output, "concat:\n");
    assert_true(strncmp(output, "additive:\n", 10) == 0);
    assert_non_null(concat);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *first = strstr(output, pairs[i]);
        if (first == NULL || first > concat || strstr(concat, pairs[i]) == NULL)
            fail_msg("no '%s' in\n%s", pairs[i], output);
    }
    *concat = '\0';
    assert_string_equal(output + strlen("additive:\n"), concat + strlen("concat:\n"));
}

/* The demo's context and weights as every client prints them (the README's answer, rounded). */
static const char clients_output[] = "context\n"
                                     "0.9852 1.7417 0.7565\n"
                                     "0.9097 1.4097 0.5000\n"
                                     "0.9985 1.7585 0.7600\n"
                                     "0.9956 1.9041 0.9085\n"
                                     "weights\n"
                                     "0.2361 0.0074 0.7491 0.0074\n"
                                     "0.4548 0.0452 0.4548 0.0452\n"
                                     "0.2393 0.0007 0.7592 0.0007\n"
                                     "0.0900 0.0028 0.9057 0.0016\n";

#define STUB_BUSY(status)                                                                          \
    STUB_ANSWER(status, "Connection: close\r\nRetry-After: 0\r\n", "16", "{\"error\":\"busy\"}")
#define STUB_CONTEXT                                                                               \
    STUB_ANSWER("200 OK", "Connection: close\r\n", "37",                                           \
                "{\"context\":[[1]],\"weights\":[[[0.5]]]}")

/* What a proxy says in the place of a daemon: no JSON, and no Retry-After. */
#define STUB_PAGE(status)                                                                          \
    STUB_ANSWER(status, "Connection: close\r\nContent-Type: text/html\r\n", "31",                  \
                "<html><h1>No server</h1></html>")

/* Whether a program said where in its source it ended, in place of why. */
static bool has_stack(const char *output)
{
    return strstr(output, "Traceback") || strstr(output, "\n    at ") || strstr(output, "\tat ");
}

/* The program fails, says this, and has asked so often. */
static void expect_failure(const char *program, const char *const *answers, const char *said,
                           int count)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char command[400];
    struct stub_collector stub;
    stub_collector_start(&stub, answers);
    snprintf(command, sizeof command, "fail() { ! %s \"$1\" 2>&1; }; fail", program);
    example_run(command, &(struct daemon){ .port = stub.port }, output);
    if (strstr(output, said) == NULL || has_stack(output))
        fail_msg("%s: no '%s' alone in\n%s", program, said, output);
    assert_int_equal(stub_collector_count(&stub), count);
    stub_collector_stop(&stub);
}

static void expect_page_said(const char *program)
{
    expect_failure(program, (const char *[]){ STUB_PAGE("502 Bad Gateway"), NULL },
                   "502: <html><h1>No server", 1);
}

static void expect_client(const char *program)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    example_run(program, &server, output);
    assert_string_equal(output, clients_output);
}

/* Clients that programs are begun with: a text too, keys, and what a busy daemon says. */
static void expect_whole_client(const char *program)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char command[400];
    expect_client(program);

    /* The weights that README.md shows, whatever comes behind them. */
    static const char seen[] = "<s> <s> 1.0000\n"
                               "▁Once <s> 0.8487\n"
                               "▁upon <s> 0.5437\n"
                               "▁a ▁upon 0.5960\n"
                               "▁time ▁upon 0.8203\n"
                               "▁\" ";
    snprintf(command, sizeof command, "look() { %s \"$1\" 'Once upon a time \"x\"'; }; look",
             program);
    example_run(command, &teller, output);
    assert_memory_equal(output, seen, strlen(seen));

    const char *answers[] = { STUB_BUSY("429 Too Many Requests"),
                              STUB_BUSY("503 Service Unavailable"), STUB_CONTEXT, NULL };
    struct stub_collector stub;
    stub_collector_start(&stub, answers);
    snprintf(command, sizeof command, "KEY=k.0123 %s", program);
    example_run(command, &(struct daemon){ .port = stub.port }, output);
    assert_string_equal(output, "context\n1.0000\nweights\n0.5000\n");
    for (int i = 0; i < 3; i++)
        assert_non_null(strcasestr(stub_collector_post(&stub, i)->head,
                                   "\r\nAuthorization: Bearer k.0123\r\n"));
    assert_int_equal(stub_collector_count(&stub), 3);
    stub_collector_stop(&stub);

    /* A proxy whose daemon starts again is asked again, and one that has none is not. */
    const char *proxied[] = { STUB_PAGE("503 Service Unavailable"), STUB_CONTEXT, NULL };
    stub_collector_start(&stub, proxied);
    example_run(program, &(struct daemon){ .port = stub.port }, output);
    assert_string_equal(output, "context\n1.0000\nweights\n0.5000\n");
    assert_int_equal(stub_collector_count(&stub), 2);
    stub_collector_stop(&stub);
    expect_page_said(program);

    /* It gives up, and says why. */
    answers[1] = NULL;
    expect_failure(program, answers, "429: {\"error\":\"busy\"}", 5);
    expect_failure(program, (const char *[]){ STUB_CLOSES, NULL }, "http://127.0.0.1:", 1);
}

/* Where curl fails, the script says why and fails too. */
TEST(client_shell)
{
    static const char program[] = "examples/clients/attention.sh";
    skip_without("curl", "command -v curl");
    expect_client(program);
    expect_failure(program, (const char *[]){ STUB_CLOSES, NULL }, "curl: ", 1);
    expect_failure(program, (const char *[]){ STUB_BUSY("429 Too Many Requests"), NULL }, "busy",
                   1);
    expect_failure(program, (const char *[]){ STUB_PAGE("502 Bad Gateway"), NULL },
                   "502\n<html><h1>No server", 1);
}

TEST(client_python)
{
    skip_without("python3", "command -v python3");
    expect_client("python3 examples/clients/attention.py");
    expect_page_said("python3 examples/clients/attention.py");
}

TEST(client_numpy)
{
    skip_without("python3-numpy", "/usr/bin/python3 -c 'import numpy'");
    expect_client("/usr/bin/python3 examples/clients/attention_numpy.py");
    expect_page_said("/usr/bin/python3 examples/clients/attention_numpy.py");
}

/* The head of each layer that looks at the token before is the one of the trained model. */
TEST(trace_numpy)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    skip_without("python3-numpy", "/usr/bin/python3 -c 'import numpy'");
    example_run("/usr/bin/python3 examples/clients/trace_numpy.py", &teller, output);
    assert_string_equal(output, "16 tokens\n"
                                "layer 0: head 5, 0.356\n"
                                "layer 1: head 3, 0.635\n"
                                "layer 2: head 0, 0.549\n"
                                "layer 3: head 6, 0.593\n"
                                "layer 4: head 7, 0.311\n");
    expect_page_said("/usr/bin/python3 examples/clients/trace_numpy.py");
}

TEST(client_javascript)
{
    skip_without("nodejs", "node -e 'fetch'");
    expect_whole_client("node examples/clients/attention.mjs");
}

TEST(client_go)
{
    skip_without("golang-go", "command -v go");
    expect_whole_client("go run examples/clients/attention.go");
}

TEST(client_php)
{
    skip_without("php-cli", "command -v php");
    expect_whole_client("php examples/clients/attention.php");
}

TEST(client_java)
{
    skip_without("default-jdk-headless", "command -v javac");
    char command[600];
    expect_client("java examples/clients/Attention.java");
    /* Each start from the source compiles it anew. */
    snprintf(command, sizeof command, "javac -d '%s/java' examples/clients/Attention.java",
             directory);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp %s/java Attention", directory);
    expect_whole_client(command);
    snprintf(command, sizeof command, "rm -r '%s/java'", directory);
    assert_int_equal(system(command), 0);
}

TEST(client_c)
{
    char *program = example_build(directory, "attention", "examples/clients/attention.c");
    expect_client(program);
    expect_page_said(program);
    expect_failure(program, (const char *[]){ STUB_PAGE("200 OK"), NULL }, "200: <html>", 1);
    remove(program);
    free(program);
}

/* The program asks over HTTP for every next token. The story must be the story of the model; and
 * after another beginning another one. */
TEST(story_teller)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char *program = example_build(directory, "story-teller", "examples/story-teller.c");
    char command[512];
    cJSON *ids = example_greedy_ids();
    snprintf(command, sizeof command, "%s --ids", program);
    example_run(command, &teller, output);
    const char *at = output;
    const cJSON *id;
    cJSON_ArrayForEach(id, ids) {
        char *end;
        assert_int_equal(strtol(at, &end, 10), id->valueint);
        assert_true(end > at);
        at = end;
    }
    assert_string_equal(at, "\n\n");
    example_run(program, &teller, output);
    assert_memory_equal(output, "Once upon a time, there was a little girl named Lily. ", 54);
    snprintf(command, sizeof command, "tell() { %s \"$1\" 'Tom and his dog'; }; tell", program);
    example_run(command, &teller, output);
    assert_memory_equal(output, "Tom and his dog, Max, ", 22);
    cJSON_Delete(ids);
    remove(program);
    free(program);
}

/* The picture in README.md is the picture that its script draws. */
TEST(weight_map)
{
    skip_without("curl", "command -v curl");
    static char output[EXAMPLE_OUTPUT_BYTES];
    example_run("examples/weight-map.sh", &teller, output);
    char *kept = manifest_file_text("examples/weight-map.svg");
    assert_string_equal(output, kept);
    free(kept);
}

/* The document that the question is about is looked at most. Texts with quotes are taken. */
TEST(which_document)
{
    skip_without("curl", "command -v curl");
    static char output[EXAMPLE_OUTPUT_BYTES];
    example_run("examples/which-document.sh", &teller, output);
    assert_string_equal(output, "mean 0.07, most 0.54 in layer 2 head 7: Tim had a toy boat. He "
                                "played with it in the water.\n"
                                "mean 0.17, most 0.93 in layer 4 head 2: Sue saw a big cake. She "
                                "wanted to eat the cake.\n"
                                "mean 0.09, most 0.38 in layer 1 head 2: Pip was a little bird. "
                                "Pip liked to sing all day.\n");
    example_run("ask() { examples/which-document.sh \"$1\" 'Tom' 'a \"b\" \\ c' 'end'; }; ask",
                &teller, output);
    assert_non_null(strstr(output, ": a \"b\" \\ c\nmean "));
}

/* ------------------------------------------------------------------- map-png.c -- */

enum { MAP_SCALE = 3, MAP_GAP = 6, MAP_GREY = 0xd8, MAP_LAYERS = 5, MAP_HEADS = 8 };

struct picture {
    int width, height;
    unsigned char *lines; /* [height][1 + width] */
};

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads a PNG of 8 bits of grey in one IDAT, as the program writes it. */
static void read_png(struct picture *picture, const char *path)
{
    size_t size;
    unsigned char *bytes = tensor_read_bytes(path, &size), *at = bytes + 8;
    static const char *const TYPES[] = { "IHDR", "IDAT", "IEND" };
    assert_true(size > 57);
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    for (int i = 0; i < 3; i++) {
        const uint32_t length = big_endian(at);
        assert_true(length <= size - 12 - (size_t)(at - bytes));
        assert_memory_equal(at + 4, TYPES[i], 4);
        assert_int_equal(big_endian(at + 8 + length), crc32(0, at + 4, 4 + length));
        if (i == 0) {
            picture->width = (int)big_endian(at + 8);
            picture->height = (int)big_endian(at + 12);
            assert_memory_equal(at + 16, "\x08\0\0\0\0", 5);
        } else if (i == 1) {
            const uLongf want = (uLongf)picture->height * (uLongf)(1 + picture->width);
            uLongf got = want;
            picture->lines = malloc(want);
            assert_non_null(picture->lines);
            assert_int_equal(uncompress(picture->lines, &got, at + 8, length), Z_OK);
            assert_true(got == want);
        }
        at += 12 + length;
    }
    assert_true(at == bytes + size);
    free(bytes);
}

static int pixel(const struct picture *picture, int x, int y)
{
    assert_true(x < picture->width && y < picture->height);
    return picture->lines[(size_t)y * (size_t)(1 + picture->width) + 1 + (size_t)x];
}

/* The middle of a weight's square has the weight's grey. */
static void expect_weights(const struct picture *picture, const cJSON *weights, int layer)
{
    int head = 0, count = cJSON_GetArraySize(weights->child);
    const int side = count * MAP_SCALE + MAP_GAP;
    const cJSON *map, *row, *weight;
    assert_int_equal(picture->width, MAP_HEADS * side + MAP_GAP);
    assert_int_equal(picture->height, MAP_LAYERS * side + MAP_GAP);
    cJSON_ArrayForEach(map, weights) {
        int y = MAP_GAP + layer * side + 1;
        cJSON_ArrayForEach(row, map) {
            int x = MAP_GAP + head * side + 1;
            cJSON_ArrayForEach(weight, row) {
                const double want = 255 - 255 * sqrt(weight->valuedouble);
                assert_true(fabs(pixel(picture, x, y) - want) < 0.51);
                x += MAP_SCALE;
            }
            assert_int_equal(pixel(picture, x + 1, y), MAP_GREY);
            y += MAP_SCALE;
        }
        head++;
    }
    assert_int_equal(head, MAP_HEADS);
}

TEST(map_png)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char *program = example_build(directory, "map-png", "examples/map-png.c"), *path = NULL,
         *command = NULL;
    assert_true(asprintf(&path, "%s/maps.png", directory) > 0);
    assert_true(asprintf(&command,
                         "draw() { %s \"$1\" stories260K '\"Is it a \\ cat?\"' >%s; }; draw",
                         program, path)
                > 0);
    example_run(command, &teller, output);
    struct picture picture = { 0 };
    read_png(&picture, path);

    struct http_client client;
    http_client_init(&client, teller.port);
    cJSON *answer = answer_post(
        &client, "/v1/trace", "{\"model\":\"stories260K\",\"text\":\"\\\"Is it a \\\\ cat?\\\"\"}");
    int layer = 0;
    const cJSON *traced;
    cJSON_ArrayForEach(traced, cJSON_GetObjectItem(answer, "layers"))
        expect_weights(&picture, cJSON_GetObjectItem(traced, "weights"), layer++);
    assert_int_equal(layer, MAP_LAYERS);
    cJSON_Delete(answer);
    http_client_free(&client);
    remove(program), remove(path);
    free(program), free(path), free(command), free(picture.lines);
}

/* Where a daemon says nothing, each client whose language is there ends and says so: a line each,
 * "NAME STATUS: ...". */
TEST(clients_time_out)
{
    skip_without("curl", "command -v curl");
    static const char script[] =
        "end() {\n"
        "    try() { said=$(timeout 100 \"$@\" 2>&1); echo \"$1 $?:\" $said; }\n"
        "    try %s \"$1\" &\n"
        "    try examples/clients/attention.sh \"$1\" &\n"
        "    for each in attention attention_numpy trace_numpy; do\n"
        "        ! /usr/bin/python3 -c 'import numpy' 2>/dev/null && [ $each != attention ] ||\n"
        "            try /usr/bin/python3 examples/clients/$each.py \"$1\" &\n"
        "    done\n"
        "    ! node -e fetch 2>/dev/null || try node examples/clients/attention.mjs \"$1\" &\n"
        "    ! command -v php >/dev/null || try php examples/clients/attention.php \"$1\" &\n"
        "    ! command -v go >/dev/null || try go run examples/clients/attention.go \"$1\" &\n"
        "    ! command -v javac >/dev/null || try java examples/clients/Attention.java \"$1\" &\n"
        "    wait\n"
        "}; end";
    static char output[EXAMPLE_OUTPUT_BYTES];
    char command[1200],
        *program = example_build(directory, "attention", "examples/clients/attention.c");
    struct stub_collector stub;
    int count = 0;
    stub_collector_start(&stub, (const char *[]){ STUB_SILENT, NULL });
    snprintf(command, sizeof command, script, program);
    example_run(command, &(struct daemon){ .port = stub.port }, output);
    stub_collector_stop(&stub);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), count++)
        if (!strstr(line, " 1: ")
            || !(strcasestr(line, "timed out") || strcasestr(line, "timeout")
                 || strstr(line, "HTTP request failed")))
            fail_msg("%s", line);
    assert_true(count >= 3);
    remove(program);
    free(program);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    daemon_start_with(&server, "--models", directory, "--model-control", "explicit", NULL);
    daemon_start_with(&teller, "--models", "examples/models", NULL);
    return 0;
}

static int clear(void **state)
{
    daemon_kill(&server);
    daemon_kill(&teller);
    daemon_directory_remove(directory);
    return 0;
}

TEST(stops_cleanly)
{
    daemon_stop(&server);
    daemon_stop(&teller);
}

ALL_TESTS(start, clear);
