/* SPDX-License-Identifier: Apache-2.0 */
/* test_autoscale.c - the autoscaler of deploy/kubernetes/queue-cost: its arithmetic is that of
 * Kubernetes' page, and in a simulated cluster it meets a sudden load sooner than by CPU alone, and
 * does not swing as it would by the queue alone. */
#include "cluster_simulation.h"
#include "test.h"

enum { STEP_AT_S = 900, WATCH_S = 600, SETTLE_S = 1200, NEEDED = 6 };

/* ------------------------------------------------------------------------------ the arithmetic --
 */

TEST(one_metric)
{
    /* Kubernetes' own examples: 200m of 100m doubles, 50m of it halves. */
    assert_int_equal(autoscaler_ask(2, (const double[]){ 0.2, 0.2 }, 2, 0.1), 4);
    assert_int_equal(autoscaler_ask(4, (const double[]){ 0.05, 0.05, 0.05, 0.05 }, 4, 0.1), 2);
    /* Within a tenth nothing happens; beyond it the next whole pod counts. */
    assert_int_equal(autoscaler_ask(3, (const double[]){ 1.09, 1.09, 1.09 }, 3, 1), 3);
    assert_int_equal(autoscaler_ask(3, (const double[]){ 0.91, 0.91, 0.91 }, 3, 1), 3);
    assert_int_equal(autoscaler_ask(3, (const double[]){ 1.2, 1.2, 1.2 }, 3, 1), 4);
    /* A pod without a value damps both ways: 0 where more are asked for, else the target. */
    assert_int_equal(autoscaler_ask(2, (const double[]){ 4, NAN }, 2, 1), 4);
    assert_int_equal(autoscaler_ask(2, (const double[]){ 1.5, NAN }, 2, 1), 2);
    assert_int_equal(autoscaler_ask(4, (const double[]){ 0.2, 0.2, NAN, NAN }, 4, 1), 3);
    assert_int_equal(autoscaler_ask(3, (const double[]){ NAN, NAN, NAN }, 3, 1), 3);
}

TEST(windows_and_policies)
{
    struct autoscaler scaler = { .rules = { .min = 2, .max = 20 } };
    scaler.rules.up =
        (struct autoscaler_direction){ .policies = { { true, 100, 15 }, { false, 4, 15 } },
                                       .policy_count = 2 };
    scaler.rules.down = (struct autoscaler_direction){ .window_s = 300,
                                                       .policies = { { false, 1, 60 } },
                                                       .policy_count = 1 };
    /* Up at once, by the larger of doubling and four more; not twice in a period. */
    assert_int_equal(autoscaler_decide(&scaler, 15, 2, 20), 6);
    assert_int_equal(autoscaler_decide(&scaler, 20, 6, 20), 6);
    assert_int_equal(autoscaler_decide(&scaler, 31, 6, 20), 12);
    assert_int_equal(autoscaler_decide(&scaler, 46, 12, 30), 20);
    /* Down only when five minutes have asked for less, and one pod a minute. */
    assert_int_equal(autoscaler_decide(&scaler, 61, 20, 1), 20);
    assert_int_equal(autoscaler_decide(&scaler, 345, 20, 1), 20);
    assert_int_equal(autoscaler_decide(&scaler, 347, 20, 1), 19);
    assert_int_equal(autoscaler_decide(&scaler, 362, 19, 1), 19);
    assert_int_equal(autoscaler_decide(&scaler, 408, 19, 1), 18);
    /* A moment of more stops that. */
    assert_int_equal(autoscaler_decide(&scaler, 423, 18, 18), 18);
    assert_int_equal(autoscaler_decide(&scaler, 600, 18, 1), 18);
    assert_int_equal(autoscaler_decide(&scaler, 724, 18, 1), 17);
}

/* ------------------------------------------------------------------------------- a sudden load --
 */

struct outcome {
    double reached_s; /* until the pods are ready that the load needs */
    int64_t late;
    int changes, replicas; /* after the load has been the same for a while */
};

/* 70 % of two pods, then 70 % of the six, and more. */
static struct outcome run_step(double cpu_target, double cost_target)
{
    static struct cluster cluster;
    struct autoscaler_rules rules;
    struct outcome outcome = { .reached_s = INFINITY };
    const double pod_rate = CLUSTER_WORKERS / cluster_request_s();
    autoscaler_read(&rules);
    rules.cpu_target = cpu_target < 0 ? rules.cpu_target : cpu_target;
    rules.cost_target = cost_target < 0 ? rules.cost_target : cost_target;
    cluster_init(&cluster, &rules, 1);
    cluster_run(&cluster, STEP_AT_S, 0.5 * 2 * pod_rate);
    assert_int_equal(cluster.late, 0);
    for (int s = 1; s <= WATCH_S; s++) {
        cluster_run(&cluster, STEP_AT_S + s, 0.68 * NEEDED * pod_rate);
        if (isinf(outcome.reached_s) && cluster_ready(&cluster) >= NEEDED)
            outcome.reached_s = s;
    }
    cluster.changes = 0;
    cluster_run(&cluster, STEP_AT_S + WATCH_S + SETTLE_S, 0.68 * NEEDED * pod_rate);
    assert_int_equal(cluster.refused, 0);
    outcome.late = cluster.late;
    outcome.changes = cluster.changes;
    outcome.replicas = cluster.replicas;
    return outcome;
}

TEST(six_pods_within_a_minute)
{
    const struct outcome shipped = run_step(-1, -1);
    assert_true(shipped.reached_s <= 60);
    assert_true(shipped.changes <= 2);
    assert_true(shipped.replicas >= NEEDED && shipped.replicas <= NEEDED + 1);
}

TEST(cpu_alone_is_slower)
{
    const struct outcome shipped = run_step(-1, -1), by_cpu = run_step(-1, 0);
    assert_true(by_cpu.reached_s > 2 * shipped.reached_s);
    assert_true(by_cpu.late > 2 * shipped.late);
}

TEST(the_queue_alone_swings)
{
    const struct outcome shipped = run_step(-1, -1), by_queue = run_step(0, -1);
    assert_true(by_queue.changes > 2 * shipped.changes);
    assert_true(by_queue.late > shipped.late);
}
