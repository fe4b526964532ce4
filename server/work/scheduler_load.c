/* scheduler_load.c - what is open in a scheduler, what of it is a share's, and what of it goes
 * before a job. */
#include "work/scheduler_internal.h"

#include "base/clock.h"

/* In its own share: what the order puts before the job. */
static int64_t before_in_share_ns(const struct job_flow *flow, const struct job *job,
                                  int64_t came_ns)
{
    int64_t sum_ns = 0;
    for (const struct job *other = flow->open.first; other; other = other->in_share.next)
        if (other != job && job_order_goes_before(other, job, came_ns))
            sum_ns += other->remaining_ns;
    return sum_ns;
}

/* Until its share has come so far, another share gets as much for its weight, and one task more;
 * and not more than it has asked for. */
static int64_t before_of_others_ns(const struct job_share_queue *shares, const struct job_flow *own,
                                   double own_ns)
{
    const double lead = job_share_start(shares, own) - shares->now;
    const double far = (lead > 0 ? lead : 0) + own_ns / job_share_weight(own);
    double sum_ns = 0;
    for (const struct job_flow *flow = shares->open.first; flow; flow = flow->in_open.next) {
        const double turn_ns = far * job_share_weight(flow) + (double)flow->task_ns;
        if (flow != own)
            sum_ns += turn_ns < (double)flow->cost_ns ? turn_ns : (double)flow->cost_ns;
    }
    return (int64_t)sum_ns;
}

int64_t scheduler_before_ns(struct scheduler *scheduler, const struct job *job)
{
    const int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&scheduler->mutex);
    const bool is_there = LIST_HAS(&scheduler->open, job, in_open);
    const struct job_flow *flow = job_order_flow(&scheduler->order, job->share);
    const int64_t own_ns = before_in_share_ns(flow, job, is_there ? job->came_ns : now_ns);
    const int64_t others_ns =
        before_of_others_ns(&scheduler->order.shares, flow, (double)own_ns + (double)job->cost_ns);
    pthread_mutex_unlock(&scheduler->mutex);
    return own_ns + others_ns;
}

struct scheduler_load scheduler_load(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    const struct scheduler_load load = scheduler->load;
    pthread_mutex_unlock(&scheduler->mutex);
    return load;
}

struct scheduler_share_load scheduler_share_load(struct scheduler *scheduler,
                                                 struct job_share *share)
{
    double others = 0;
    pthread_mutex_lock(&scheduler->mutex);
    const struct job_flow *own = job_order_flow(&scheduler->order, share);
    const double weight = job_share_weight(own);
    for (const struct job_flow *flow = scheduler->order.shares.open.first; flow;
         flow = flow->in_open.next)
        others += flow == own ? 0 : job_share_weight(flow);
    const struct scheduler_share_load load = { own->job_count, own->cost_ns,
                                               weight / (weight + others) };
    pthread_mutex_unlock(&scheduler->mutex);
    return load;
}

int scheduler_worker_count(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    const int worker_count = scheduler->worker_count;
    pthread_mutex_unlock(&scheduler->mutex);
    return worker_count;
}
