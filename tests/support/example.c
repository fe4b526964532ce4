/* SPDX-License-Identifier: Apache-2.0 */
/* example.c - see example.h. */
#include "example.h"
#include "test.h"

#include "manifest.h"

void example_run(const char *command, const struct daemon *daemon,
                 char output[EXAMPLE_OUTPUT_BYTES])
{
    char *with_address = NULL;
    assert_true(asprintf(&with_address, "%s http://127.0.0.1:%d", command, daemon->port) > 0);
    FILE *stream = popen(with_address, "r");
    assert_non_null(stream);
    const size_t used = fread(output, 1, EXAMPLE_OUTPUT_BYTES - 1, stream);
    output[used] = '\0';
    const int status = pclose(stream);
    if (status != 0)
        fail_msg("%s: status %d, wrote\n%s", with_address, status, output);
    free(with_address);
}

char *example_build(const char *directory, const char *name, const char *sources)
{
    char *program = NULL, *command = NULL;
    assert_true(asprintf(&program, "%s/%s", directory, name) > 0);
    assert_true(asprintf(&command,
                         "cc -O2 %s $(pkg-config --cflags --libs libcurl libcjson) -lm -o %s",
                         sources, program)
                > 0);
    assert_int_equal(system(command), 0);
    free(command);
    return program;
}

cJSON *example_greedy_ids(void)
{
    char *text = manifest_file_text("tests/conformance/stories260K/greedy.json");
    cJSON *root = cJSON_Parse(text);
    cJSON *ids = cJSON_DetachItemFromObject(root, "ids");
    assert_non_null(ids);
    cJSON_Delete(root);
    free(text);
    return ids;
}
