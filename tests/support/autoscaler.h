/* SPDX-License-Identifier: Apache-2.0 */
/* autoscaler.h - the decisions of Kubernetes' HorizontalPodAutoscaler (autoscaling/v2), for the
 * simulation of a cluster and for replicas that are processes on this machine.
 *
 * Of each metric: the ratio of the mean over the pods to its target asks for so many pods; within
 * the tolerance for none. A pod without a value counts as idle where more pods are asked for, and
 * as being at the target where fewer are. The largest answer counts. Fewer pods than the most that
 * the stabilization window has asked for are not taken; then the policies bound the step.
 *
 * https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ has the rules. */
#ifndef AUTOSCALER_H
#define AUTOSCALER_H

#include <stdbool.h>

enum { AUTOSCALER_METRICS = 2, AUTOSCALER_HISTORY = 512, AUTOSCALER_POLICIES = 2 };

struct autoscaler_policy {
    bool is_percent;
    double value, period_s;
};

/* What spec.behavior has of one direction; of several policies the largest step counts. */
struct autoscaler_direction {
    double window_s;
    struct autoscaler_policy policies[AUTOSCALER_POLICIES];
    int policy_count;
};

struct autoscaler_rules {
    int min, max;
    double cpu_target;  /* of all CPUs of a pod: 0.7; 0: CPU is not asked for */
    double cost_target; /* attnd_queue_cost_seconds of a pod; 0: it is not asked for */
    struct autoscaler_direction up, down;
};

struct autoscaler {
    struct autoscaler_rules rules;
    struct {
        double at_s;
        int replicas; /* asked for */
        int change;   /* made: of the number of pods */
    } history[AUTOSCALER_HISTORY];
    int count; /* of history, which goes round */
};

/* The rules of deploy/kubernetes/queue-cost/hpa.yaml with those of base/hpa.yaml below it. */
void autoscaler_read(struct autoscaler_rules *rules);

/* What one metric asks for. values are those of the pods that there are; NAN: none yet. */
int autoscaler_ask(int replicas, const double *values, int count, double target);

/* One round: how many pods there should be at this time, of what the metrics ask for. */
int autoscaler_decide(struct autoscaler *autoscaler, double at_s, int replicas, int asked);

#endif
