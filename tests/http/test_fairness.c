/* SPDX-License-Identifier: Apache-2.0 */
/* test_fairness.c - one long request does not hold up anything else: neither short requests nor the
 * changes that an operator makes to the models. The number of workers follows the CPUs that the
 * daemon may use.
 *
 * The tests check the order of events and no durations: a request that comes while a long one runs
 * is answered before it. */
#include "answer.h"
#include "daemon.h"
#include "endless.h"
#include "host/resources.h"
#include "model_client.h"
#include "test.h"

#include <sched.h>
#include <signal.h>

static const char PATH[] = "/v1/attention";
static const char SHORT[] = JSON({"model":"demo","query":[[1,0,0]]});

static struct daemon server;
static struct http_client client;
static char *directory;

static double metric(const char *name)
{
    struct http_response page = http_client_get(&client, "/metrics");
    char before[64];
    snprintf(before, sizeof before, "\n%s ", name);
    const char *line = strstr(page.body, before);
    const double value = line ? strtod(line + strlen(before), NULL) : -1;
    http_response_free(&page);
    return value;
}

static void wait_for_metric(const char *name, double wanted)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (metric(name) != wanted) {
        if (daemon_now() > until)
            fail_msg("%s is %g, not %g", name, metric(name), wanted);
        daemon_pause(0.01);
    }
}

/* There is one worker, and 50 short requests come one after the other. */
TEST(short_requests_pass_a_long_one)
{
    struct endless request;
    endless_begin_any(&request, &client);
    for (int i = 0; i < 50; i++) {
        struct http_response response = http_client_post(&client, PATH, SHORT);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    endless_end(&request);
}

/* A request that needs the disk does not wait for a worker. */
TEST(models_are_changed_meanwhile)
{
    struct endless request;
    endless_begin_any(&request, &client);
    model_put_demo(&client, "another", 2, 201);
    model_delete_well(&client, "another");
    endless_end(&request);
}

static void set_cpus(const cpu_set_t *set)
{
    assert_int_equal(sched_setaffinity(server.pid, sizeof *set, set), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
}

static test_fixture pinned_workers, stop;

/* The daemon runs without --workers. A request runs on while the workers become fewer and more. */
TEST_WITH(workers_follow_the_cpus, pinned_workers, stop)
{
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    const int granted = resources_cpu_count(), cpu_count = granted < 64 ? granted : 64;
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    wait_for_metric("attnd_workers", cpu_count);
    struct endless request;
    endless_begin_any(&request, &client);
    set_cpus(&one);
    wait_for_metric("attnd_workers", 1);
    set_cpus(&all);
    wait_for_metric("attnd_workers", cpu_count);
    endless_end(&request);
}

static int one_worker(void **state)
{
    directory = daemon_directory_create();
    daemon_start_with(&server, "--workers", "1", DAEMON_PATIENT, "--model-control", "explicit",
                      "--models", directory, NULL);
    http_client_init(&client, server.port);
    return 0;
}

static int pinned_workers(void **state)
{
    daemon_start_with(&server, "--pin-workers", DAEMON_PATIENT, NULL);
    http_client_init(&client, server.port);
    return 0;
}

static int stop(void **state)
{
    http_client_free(&client);
    daemon_stop(&server);
    daemon_directory_remove(directory);
    directory = NULL;
    return 0;
}

EACH_TEST(one_worker, stop);
