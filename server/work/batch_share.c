/* batch_share.c - see batch_share.h. Without shares, no function here takes the scheduler's lock.
 */
#include "work/batch_share.h"

static void set(struct scheduler *scheduler, struct job *batch, struct job_share *share)
{
    if (share != batch->share)
        scheduler_move(scheduler, batch, share);
}

void batch_share_join(struct scheduler *scheduler, struct job *batch, const struct job *member)
{
    if (member->share != batch->share)
        scheduler_join(scheduler, batch, member);
}

void batch_share_of_waiting(struct scheduler *scheduler, const struct batch_group *group)
{
    const struct batch_member *first = group->members.first;
    set(scheduler, group->batch, first ? first->job->share : NULL);
    for (const struct batch_member *member = first; member; member = member->in_group.next)
        batch_share_join(scheduler, group->batch, member->job);
}

void batch_share_of_taken(struct scheduler *scheduler, struct job *batch,
                          struct batch_member *const *members, int count)
{
    set(scheduler, batch, members[0]->job->share);
    for (int i = 0; i < count; i++)
        batch_share_join(scheduler, batch, members[i]->job);
}

void batch_share_divide(struct scheduler *scheduler, struct job *batch,
                        struct batch_member *const *members, int count, int64_t cpu_ns)
{
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += members[i]->rows;
    for (int i = 0; i < count; i++)
        if (members[i]->job->share != batch->share)
            scheduler_pay(scheduler, batch, members[i]->job, cpu_ns / rows * members[i]->rows);
    set(scheduler, batch, NULL);
}
