/* test_examples.c - the programs in examples/ against the daemon, as a reader would run them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES = 16384 };

static struct daemon server;
static char *directory;

/* Runs examples/NAME with the server's address, which must end with 0, and reads what it writes. */
static void run_example(const char *name, char output[OUTPUT_BYTES])
{
    char command[256];
    snprintf(command, sizeof command, "examples/%s http://127.0.0.1:%d", name, server.port);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    const size_t used = fread(output, 1, OUTPUT_BYTES - 1, stream);
    output[used] = '\0';
    const int status = pclose(stream);
    if (status != 0)
        fail_msg("%s: status %d, wrote\n%s", command, status, output);
}

/* Each French word must have looked at the English one that it translates, in both models. */
static void test_encoder_decoder(void **state)
{
    (void)state;
    static const char *const pairs[] = {
        "L' <- The", "accord <- agreement",    "sur <- on",
        "la <- the", "zone <- Area",           "économique <- Economic",
        "a <- was",  "européenne <- European", "été <- was",
        "en <- in",  "signé <- signed",        "août <- August",
        ". <- .",    "1992 <- 1992",
    };
    static char output[OUTPUT_BYTES];
    run_example("encoder-decoder.sh", output);
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

static int start(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    daemon_start_with(&server, "--models", directory, "--model-control", "explicit", NULL);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    daemon_kill(&server);
    daemon_directory_remove(directory);
    return 0;
}

static void test_stops_cleanly(void **state)
{
    (void)state;
    daemon_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder_decoder),
        cmocka_unit_test(test_stops_cleanly),
    };
    return cmocka_run_group_tests(tests, start, clear);
}
