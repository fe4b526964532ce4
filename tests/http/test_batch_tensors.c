/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch_tensors.c - attnd batch with --format safetensors: both files of a chunk or none,
 * whatever ended the process; names of tensors; what the format has no room for. That the tensors
 * are those over HTTP, for every operation, is in test_batch_files.c. */
#include "batch_command.h"
#include "fixture.h"
#include "test.h"

#include <cjson/cJSON.h>

#include <unistd.h>

enum { PATH_BYTES = 512 };

#define FORMAT "--format safetensors"
#define SMALL  "--out OUT REQUESTS --chunk 120 " FORMAT

/* The header of a chunk's file; the caller deletes it. attnd's own reader must take the file. */
static cJSON *header_of(const char *out, const char *name)
{
    char path[PATH_BYTES];
    size_t size = 0;
    uint64_t length;
    snprintf(path, sizeof path, "%s/%s", fixture_path(out), name);
    struct daemon_result shown =
        daemon_command((const char *const[]){ "model", "show", path, NULL }, NULL);
    if (shown.exit_code != 0)
        fail_msg("%s: %s", name, shown.errors);
    daemon_result_free(&shown);
    char *bytes = batch_file_bytes(out, name, &size);
    assert_true(bytes && size > sizeof length);
    memcpy(&length, bytes, sizeof length);
    assert_true(length <= size - sizeof length);
    cJSON *header = cJSON_ParseWithLength(bytes + sizeof length, length);
    assert_non_null(header);
    free(bytes);
    return header;
}

TEST(killed_at_any_moment_it_goes_on_to_the_same_bytes)
{
    batch_kill_often("--format=safetensors", 25);
}

/* The end of a process or of the power between the names of a chunk's files. */
TEST(a_chunk_without_one_of_its_files_is_computed_again)
{
    static const char *const NAMES[] = { "chunk-000003.jsonl", "chunk-000004.safetensors" };
    char path[PATH_BYTES];
    batch_make_whole("--format=safetensors");
    free(batch_command(SMALL, "many", "halves", 3));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", fixture_path("halves"), NAMES[i]);
        assert_int_equal(unlink(path), 0);
    }
    char *said = batch_command(SMALL, "many", "halves", 3);
    assert_non_null(strstr(said, "8 of the chunks were there already"));
    assert_non_null(strstr(said, "12 faults: 12 not_found"));
    batch_expect_said(said, "\n240 computed");
    assert_int_equal(batch_expect_same("whole", "halves"), BATCH_LINES / BATCH_CHUNK);
    assert_int_equal(daemon_directory_count(fixture_path("halves")),
                     2 * BATCH_LINES / BATCH_CHUNK + 1);
}

TEST(parts_together_are_the_whole)
{
    batch_make_whole("--format=safetensors");
    free(batch_command(SMALL " --part 1/2", "many", "parts", 3));
    free(batch_command(SMALL " --part 0/2 --queue-max 2 --workers 3", "many", "parts", 3));
    assert_int_equal(batch_expect_same("whole", "parts"), BATCH_LINES / BATCH_CHUNK);
    batch_expect_said(batch_command("--out OUT REQUESTS --chunk 120", "many", "parts", 1),
                      "has the answers of another batch");
}

TEST(without_room_it_says_so_and_goes_on_later)
{
    batch_make_whole("--format=safetensors");
    batch_expect_said(
        batch_command_with_small_files(48, "many --out full --chunk 1000 " FORMAT, 1),
        " cannot be written: File too large; finished chunks stay: make room, and start the batch "
        "again");
    assert_int_equal(daemon_directory_count(fixture_path("full")), 1); /* batch.json */
    free(batch_command("--out OUT REQUESTS " FORMAT, "many", "full", 3));
    free(batch_command("--out OUT REQUESTS " FORMAT, "many", "full-whole", 3));
    assert_int_equal(batch_expect_same("full", "full-whole"), 2);
}

#define LINE(id)                                                                                   \
    "{\"custom_id\":\"" id "\",\"method\":\"POST\",\"url\":\"/v1/attention\",\"body\":"            \
    "{\"model\":\"demo\",\"query\":[[1,0,0]],\"outputs\":[\"context\"]}}\n"

TEST(names_are_of_ids_as_they_are)
{
    static const char *const IDS[] = {
        "a", "a/context", "a.b", " ", "__metadata__", "\"\\\n\x01", "\xc3\xbc\xe2\x82\xac", "/"
    };
    static const char TEXT[] = LINE("a") LINE("a") LINE("a/context") "\n" LINE("a.b") LINE(" ")
        LINE("__metadata__") LINE("\\\"\\\\\\n\\u0001") LINE("\\u00fc\xe2\x82\xac") LINE("/");
    enum { COUNT = sizeof IDS / sizeof IDS[0] };
    daemon_directory_write(directory, "odd", TEXT, strlen(TEXT));
    batch_expect_said(batch_command("--out OUT REQUESTS " FORMAT, "odd", "odd-out", 3),
                      "line 2: duplicate: custom_id 'a' has come before");
    cJSON *header = header_of("odd-out", "chunk-000000.safetensors");
    assert_int_equal(cJSON_GetArraySize(header), COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/context", IDS[i]);
        const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header, name);
        if (!tensor)
            fail_msg("there is no %s", name);
        char *shape = cJSON_PrintUnformatted(cJSON_GetObjectItem(tensor, "shape"));
        assert_string_equal(shape, "[1,3]");
        free(shape);
    }
    cJSON_Delete(header);
}

/* Faults, operations whose answers are JSON, and blank lines have no tensors. */
TEST(a_chunk_without_tensors_has_an_empty_file)
{
    static const char TEXT[] =
        "{\"custom_id\":\"s\",\"method\":\"POST\",\"url\":\"/v1/softmax\",\"body\":{\"input\":"
        "[1,1]}}\nnothing\n\n\n";
    daemon_directory_write(directory, "none", TEXT, strlen(TEXT));
    free(batch_command("--out OUT REQUESTS --chunk 2 " FORMAT, "none", "none-out", 3));
    for (int chunk = 0; chunk < 2; chunk++) {
        char name[64];
        snprintf(name, sizeof name, "chunk-%06d.safetensors", chunk);
        cJSON *header = header_of("none-out", name);
        char *text = cJSON_PrintUnformatted(header);
        assert_string_equal(text, "{\"__metadata__\":{}}");
        free(text);
        cJSON_Delete(header);
    }
    char *lines = batch_file_text("none-out", "chunk-000000.jsonl");
    assert_non_null(strstr(lines, "\"custom_id\":\"s\",\"response\":{\"status_code\":200"));
    assert_non_null(strstr(lines, "\"custom_id\":null,\"response\":{\"status_code\":400"));
    free(lines);
}

/* An id of 512 characters that have six bytes in JSON, in front of each tensor of a trace. */
TEST(a_header_over_the_bound_is_said)
{
    enum { REQUESTS = 1500, ID_BYTES = 508 };
    FILE *file = fopen(fixture_path("large"), "w");
    assert_non_null(file);
    for (int i = 0; i < REQUESTS; i++) {
        fputs("{\"custom_id\":\"", file);
        for (int k = 0; k < ID_BYTES; k++)
            fputs("\\u0001", file);
        fprintf(file,
                "%d\",\"method\":\"POST\",\"url\":\"/v1/trace\",\"body\":{\"model\":"
                "\"stories260K\",\"tokens\":[1],\"outputs\":[\"weights\",\"lse\",\"scores\","
                "\"masked\",\"inputs\",\"hidden_states\",\"attention_output\"]}}\n",
                i);
    }
    assert_int_equal(fclose(file), 0);
    batch_expect_said(
        batch_command("--out OUT REQUESTS --models examples/models --chunk 1500 " FORMAT, "large",
                      "large-out", 1),
        "more than 100000000 bytes, the most that a header of safetensors has; give a smaller "
        "--chunk, and an empty folder");
    assert_int_equal(daemon_directory_count(fixture_path("large-out")), 1); /* batch.json */
}

ALL_TESTS(fixture_make_directory, fixture_clear);
