/* SPDX-License-Identifier: Apache-2.0 */
/* no_memory.c - see no_memory.h. */
#include "no_memory.h"
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct failing_malloc *control;
static char preload[512], control_variable[512];

const char *const *no_memory_environment(void)
{
    static const char *variables[3];
    variables[0] = preload;
    variables[1] = control_variable;
    return variables;
}

void fail_from(uint64_t n, uint64_t times)
{
    atomic_store(&control->failed, 0);
    atomic_store(&control->count, 0);
    atomic_store(&control->fail_times, times);
    atomic_store(&control->fail_first, n);
}

struct http_response send_once(const struct http_request *request)
{
    struct http_client own;
    http_client_init(&own, server.port);
    struct http_response response = http_client_send(&own, request);
    http_client_free(&own);
    return response;
}

/* Over a connection that is kept: a round opens one, and to open another would say no more. */
void expect_well(const struct http_request *request, long status)
{
    static struct http_client kept;
    if (!kept.curl || kept.port != server.port) {
        if (kept.curl)
            http_client_free(&kept);
        http_client_init(&kept, server.port);
    }
    struct http_response response = http_client_send(&kept, request);
    if (response.status != status)
        fail_msg("%s: expected %ld, not %ld: %s", request->path, status, response.status,
                 response.body ? response.body : "");
    http_response_free(&response);
}

/* While the daemon has no memory from the first allocation on, a connection waits in the kernel's
 * queue. The daemon tries to take it now and then, without spinning, and answers when there is
 * memory again. */
static struct http_response send_and_wait(const struct http_request *request)
{
    enum { WAIT_MS = 150, TRIES_MAX = 100 };
    struct http_background sender;
    http_background_start(&sender, server.port, request);
    for (int i = 0; i < 10000 * daemon_slowness() && atomic_load(&control->failed) == 0; i++)
        usleep(1000);
    usleep(WAIT_MS * 1000);
    const uint64_t tries = atomic_load(&control->failed);
    fail_from(0, 0);
    struct http_response response = http_background_join(&sender);
    if (tries == 0 || tries > TRIES_MAX)
        fail_msg("the daemon tried %d times to take a connection without memory", (int)tries);
    return response;
}

bool round_of(const struct http_request *request, long status, uint64_t n, uint64_t times,
              long *answered)
{
    fail_from(n, times);
    const bool waits = n == 1 && times > 1;
    struct http_response response = waits ? send_and_wait(request) : send_once(request);
    const bool failed = waits || atomic_load(&control->failed) > 0;
    fail_from(0, 0);
    if (waits)
        assert_int_equal(response.status, status);
    if (response.status != status && response.status != 0) {
        if (response.status != 503)
            fail_msg("allocation %d: status %ld: %s", (int)n, response.status, response.body);
        assert_non_null(strstr(response.body, JSON("code":"memory")));
    }
    *answered = response.status;
    if (response.status == 503 && !strstr(response.body, "request_id"))
        *answered = NO_MEMORY_UNSENT;
    http_response_free(&response);
    return failed;
}

void go_through(const struct http_request *request, long status, uint64_t times)
{
    int refused = 0;
    long answered;
    uint64_t n = 1;
    expect_well(request, status);
    while (n < ALLOCATIONS_MAX && round_of(request, status, n, times, &answered)) {
        expect_well(request, status);
        refused += answered == 503 || answered == NO_MEMORY_UNSENT;
        n++;
    }
    print_message("    %d allocations, %d answers of 503\n", (int)n - 1, refused);
    assert_true(n > 5 && n < ALLOCATIONS_MAX);
    assert_true(refused > 0);
}

int no_memory_start(void **state)
{
    char path[400];
    const char *library = getenv("FAILING_MALLOC");
    char *absolute = realpath(library ? library : "build/cc/tests/support/failing_malloc.so", NULL);
    if (!absolute)
        return 1;
    directory = daemon_directory_create();
    char *state_directory = daemon_directory_create();
    snprintf(path, sizeof path, "%s/control", state_directory);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", absolute);
    snprintf(control_variable, sizeof control_variable, "FAIL_ALLOCATION_CONTROL=%s", path);
    free(absolute);
    const struct failing_malloc none = { 0 };
    daemon_directory_write(state_directory, "control", &none, sizeof none);
    const int file = open(path, O_RDWR);
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    *state = state_directory;
    if (control == MAP_FAILED)
        return 1;
    const char *const arguments[] = { "--models", directory, "--model-control", "explicit", NULL };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments,
                                                    .environment = no_memory_environment() });
    return 0;
}

int no_memory_clear(void **state)
{
    daemon_kill(&server);
    daemon_directory_remove(directory);
    daemon_directory_remove(*state);
    return 0;
}
