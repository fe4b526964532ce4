/* SPDX-License-Identifier: Apache-2.0 */
/* autoscaler.c - see autoscaler.h. */
#include "autoscaler.h"

#include "manifest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 0.1; /* the controller's own, which a manifest may not change */

/* ---------------------------------------------------------------------------------- reading -- */

static double number(const struct manifest *manifest, const char *path)
{
    const char *text = manifest_get(manifest, path);
    char *unit;
    const double value = strtod(text, &unit);
    return *unit == 'm' ? value / 1000 : value;
}

static void read_direction(struct autoscaler_direction *direction, const struct manifest *manifest,
                           const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "spec.behavior.%s.stabilizationWindowSeconds", name);
    *direction = (struct autoscaler_direction){ .window_s = number(manifest, path) };
    for (int i = 0; i < AUTOSCALER_POLICIES; i++) {
        struct autoscaler_policy *policy = &direction->policies[i];
        snprintf(path, sizeof path, "spec.behavior.%s.policies.%d.type", name, i);
        const char *type = manifest_find(manifest, path);
        if (!type)
            break;
        policy->is_percent = strcmp(type, "Percent") == 0;
        snprintf(path, sizeof path, "spec.behavior.%s.policies.%d.value", name, i);
        policy->value = number(manifest, path);
        snprintf(path, sizeof path, "spec.behavior.%s.policies.%d.periodSeconds", name, i);
        policy->period_s = number(manifest, path);
        direction->policy_count++;
    }
}

void autoscaler_read(struct autoscaler_rules *rules)
{
    struct manifest base, own;
    manifest_read(&base, "deploy/kubernetes/base/hpa.yaml");
    manifest_read(&own, "deploy/kubernetes/queue-cost/hpa.yaml");
    *rules = (struct autoscaler_rules){
        .min = (int)number(&base, "spec.minReplicas"),
        .max = (int)number(&base, "spec.maxReplicas"),
        .cpu_target = number(&own, "spec.metrics.0.resource.target.averageUtilization") / 100,
        .cost_target = number(&own, "spec.metrics.1.pods.target.averageValue"),
    };
    read_direction(&rules->up, &own, "scaleUp");
    read_direction(&rules->down, &own, "scaleDown");
    manifest_free(&base);
    manifest_free(&own);
}

/* -------------------------------------------------------------------------------- one metric -- */

static bool is_near(double ratio)
{
    return fabs(1 - ratio) <= TOLERANCE;
}

int autoscaler_ask(int replicas, const double *values, int count, double target)
{
    double sum = 0;
    int known = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(values[i])) {
            sum += values[i];
            known++;
        }
    if (known == 0)
        return replicas;
    const double ratio = sum / known / target;
    if (known == count)
        return is_near(ratio) ? replicas : (int)ceil(ratio * known);
    const double assumed = ratio < 1 ? target : 0;
    const double whole = (sum + assumed * (count - known)) / count / target;
    if (is_near(whole) || (ratio < 1) != (whole < 1))
        return replicas;
    const int asked = (int)ceil(whole * count);
    return (whole < 1 && asked > replicas) || (whole > 1 && asked < replicas) ? replicas : asked;
}

/* --------------------------------------------------------------------------------- one round -- */

/* The most, or the least, that was asked for in the window. */
static int asked_within(const struct autoscaler *autoscaler, double since_s, int asked, bool most)
{
    for (int i = 0; i < autoscaler->count && i < AUTOSCALER_HISTORY; i++) {
        const int then = autoscaler->history[i].replicas;
        if (autoscaler->history[i].at_s > since_s && (most ? then > asked : then < asked))
            asked = then;
    }
    return asked;
}

/* How the number of pods has changed since then. */
static int changed_since(const struct autoscaler *autoscaler, double since_s)
{
    int change = 0;
    for (int i = 0; i < autoscaler->count && i < AUTOSCALER_HISTORY; i++)
        if (autoscaler->history[i].at_s > since_s)
            change += autoscaler->history[i].change;
    return change;
}

/* How far the policies let it go in a direction: sign is 1 or -1. */
static int bound_of(const struct autoscaler *autoscaler, const struct autoscaler_direction *way,
                    int sign, double at_s, int replicas)
{
    int bound = replicas;
    for (int i = 0; i < way->policy_count; i++) {
        const struct autoscaler_policy *policy = &way->policies[i];
        const int start = replicas - changed_since(autoscaler, at_s - policy->period_s);
        const double step = policy->is_percent ? start * policy->value / 100 : policy->value;
        const int reach = sign > 0 ? (int)ceil(start + step) : (int)floor(start - step);
        if (sign > 0 ? reach > bound : reach < bound)
            bound = reach;
    }
    return bound;
}

int autoscaler_decide(struct autoscaler *autoscaler, double at_s, int replicas, int asked)
{
    const struct autoscaler_rules *rules = &autoscaler->rules;
    const int least = asked_within(autoscaler, at_s - rules->up.window_s, asked, false);
    const int most = asked_within(autoscaler, at_s - rules->down.window_s, asked, true);
    int decided = replicas < least ? least : replicas > most ? most : replicas;
    if (decided > replicas) {
        const int bound = bound_of(autoscaler, &rules->up, 1, at_s, replicas);
        decided = decided < bound ? decided : bound;
    } else if (decided < replicas) {
        const int bound = bound_of(autoscaler, &rules->down, -1, at_s, replicas);
        decided = decided > bound ? decided : bound;
    }
    decided = decided < rules->min ? rules->min : decided > rules->max ? rules->max : decided;
    const int place = autoscaler->count++ % AUTOSCALER_HISTORY;
    autoscaler->history[place].at_s = at_s;
    autoscaler->history[place].replicas = asked;
    autoscaler->history[place].change = decided - replicas;
    return decided;
}
