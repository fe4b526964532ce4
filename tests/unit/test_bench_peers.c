/* SPDX-License-Identifier: Apache-2.0 */
/* What the benches do to be fair to those whom they compare the daemon with: a rival's connections
 * send what is written at once, and who was kept waiting is not compared. */
#include "../bench/peers.h"
#include "../bench/traffic_connection.h"
#include "../bench/traffic_report.h"
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

TEST(a_rivals_connections_do_not_delay)
{
    struct traffic_connection connection;
    int port, delays_not = 0;
    socklen_t size = sizeof delays_not;
    const int listening = traffic_listen(&port);
    assert_true(traffic_connection_open(&connection, port));
    const int accepted = accept(listening, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &delays_not, &size), 0);
    assert_int_not_equal(delays_not, 0);
    close(accepted);
    close(listening);
    traffic_connection_close(&connection);
}

TEST(busy_is_four_fifths_of_what_it_could)
{
    assert_true(peer_is_busy(1, 1));
    assert_true(peer_is_busy(0.8, 1));
    assert_false(peer_is_busy(0.79, 1));
    assert_false(peer_is_busy(0.06, 1));
    assert_true(peer_is_busy(1.7, 2));
    assert_false(peer_is_busy(1, 2));
}

static void expect_busy(bool wanted, int threads, double cpu_s)
{
    const struct peer peer = { .threads = threads, .cpu_s = cpu_s, .clock_s = 1 };
    assert_true(peer_was_busy(&peer) == wanted);
}

TEST(a_peer_is_busy_with_all_its_threads)
{
    expect_busy(false, 1, 0.1);
    expect_busy(true, 1, 0.9);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    expect_busy(false, 2, 1.2);
    expect_busy(true, 2, 1.7);
}

/* Of a machine of two CPUs a peer could take what others leave. */
TEST(what_a_peer_could_take)
{
    assert_float_equal(peer_could_s(10, 1, 2, 0), 10, 0);
    assert_float_equal(peer_could_s(10, 2, 2, 0), 20, 0);
    assert_float_equal(peer_could_s(10, 2, 2, 8), 12, 0);
    assert_float_equal(peer_could_s(10, 1, 2, 8), 10, 0); /* on the CPU that they leave */
    assert_float_equal(peer_could_s(10, 1, 2, 14), 6, 0);
    assert_float_equal(peer_could_s(10, 4, 2, 0), 20, 0);
    assert_float_equal(peer_could_s(10, 1, 2, 30), 0, 0);
    assert_float_equal(peer_could_s(10, 2, 4, 8), 20, 0);
}

TEST(an_idle_peer_is_named_with_its_share)
{
    char text[PEER_IDLE_BYTES];
    peer_describe_idle(text, 0.16, 2);
    assert_string_equal(text, "not busy: 8% CPU");
    peer_describe_idle(text, 0, 0);
    assert_string_equal(text, "not busy: 0% CPU");
}

/* Ten seconds in which the client took four of CPU. */
static void expect_could(double wanted_s, int server_cpus, int machine_cpus, int callers)
{
    const struct traffic_result result = { .elapsed_s = 10, .cpu_s = 4 };
    const double could_s = traffic_could_s(server_cpus, machine_cpus, callers, &result);
    assert_float_equal(could_s, wanted_s, 1e-9);
}

TEST(what_a_server_could_take)
{
    expect_could(10, 1, 2, 32); /* one process beside the client */
    expect_could(16, 2, 2, 32); /* two beside it, on both CPUs */
    expect_could(20, 2, 4, 32);
    expect_could(6, 1, 1, 32); /* the client on the same CPU */
    expect_could(6, 2, 2, 1);  /* in turns with a single caller */
    expect_could(6, 1, 4, 1);
}
