/* matrix_base.c - what the weights of each row are relative to: the first keys that it sees, until
 * the weights of a step outgrow their limit. */
#include "base/compensated.h"
#include "forward/matrix_run.h"

#include <math.h>

static const double LOG2_E = 1.4426950408889634;

/* Give a lane the base for weights of this score to be at most 1, and at least a half. */
static void set_base(const struct attn_matrix_run *run, struct attn_matrix_group *group, int64_t r,
                     float score)
{
    const float power = score * run->matrix.to_power;
    const bool is_usual = fabsf(power) < 0x1p20f;

    group->offset[r] = is_usual ? 0.0f : score;
    group->base[r] = is_usual ? ceilf(power) : 0.0f;
}

/* What a lane's weights are relative to, as a power of 2. */
static double power_of_base(const struct attn_matrix_run *run,
                            const struct attn_matrix_group *group, int64_t r)
{
    return (double)group->offset[r] * (double)run->matrix.to_power + (double)group->base[r];
}

void attn_matrix_begin_sums(const struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    const struct attn_row_task *task = &group->task;
    const float sink = attn_mask_sink(task->problem, task->q_head);
    const bool has_sink = sink != -INFINITY;

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
        set_base(run, group, r, has_sink ? (float)((double)sink / run->matrix.natural) : 0.0f);
        task->work.sum[r] =
            has_sink ? (float)exp2((double)sink * LOG2_E - power_of_base(run, group, r)) : 0.0f;
    }
    group->unset = has_sink ? 0 : UINT32_MAX;
}

void attn_matrix_set_bases(struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    if (group->unset == 0)
        return;
    run->kernels->greatest(run->greatest, run->scores_t[run->at]);
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        if ((group->unset >> r & 1) != 0 && run->greatest[r] > -INFINITY) {
            set_base(run, group, r, run->greatest[r]);
            group->unset &= ~((uint32_t)1 << r);
        }
}

static bool exceeds_limit(const struct attn_matrix_run *run, int64_t r)
{
    return !(run->sums[r] <= run->limits[r]);
}

bool attn_matrix_any_exceeds(const struct attn_matrix_run *run)
{
    bool any = false;

    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        any = any || exceeds_limit(run, r);
    return any;
}

static void scale_lane(float *tile_t, int64_t rows, int64_t r, float factor)
{
    for (int64_t c = 0; c < rows; c++)
        tile_t[c * ATTN_MATRIX_LANES + r] *= factor;
}

void attn_matrix_raise_bases(struct attn_matrix_run *run, struct attn_matrix_group *group)
{
    const struct attn_workspace *work = &group->task.work;
    const int64_t columns = run->plan.problem.value.shape[3];

    run->kernels->greatest(run->greatest, run->scores_t[run->at]);
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
        const float offset = group->offset[r], base = group->base[r];
        const double old = power_of_base(run, group, r);
        work->rescale[r] = 1.0f;
        if (!exceeds_limit(run, r))
            continue;
        set_base(run, group, r, run->greatest[r]);
        if (!(power_of_base(run, group, r) > old)) {
            group->offset[r] = offset;
            group->base[r] = base;
            continue;
        }
        work->rescale[r] = (float)exp2(old - power_of_base(run, group, r));
        work->sum[r] *= work->rescale[r];
        scale_lane(work->context_t, columns, r, work->rescale[r]);
        if (group->has_odd_context)
            scale_lane(group->odd_context_t, columns, r, work->rescale[r]);
    }
    attn_compensated_rescale(&run->plan, work);
}
