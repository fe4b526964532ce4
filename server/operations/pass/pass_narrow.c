/* SPDX-License-Identifier: Apache-2.0 */
/* pass_narrow.c - a step behind the last one that looks at several rows of the last stream: where
 * one row of each sequence is asked for, the others need not go on to the head.
 *
 * A row's bits do not depend on the rows beside it, so those of the row that stays are the same. */
#include "operations/pass/pass_internal.h"

#include <string.h>

static int last_stream(const struct pass *pass)
{
    return pass->forward->stream_count - 1;
}

static bool is_narrow(const struct pass *pass)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (!pass->sequences[i].item->is_narrow)
            return false;
    return true;
}

void pass_list_narrow(struct pass *pass)
{
    int64_t at = pass->step_count;
    while (at > 0 && pass->steps[at - 1].kind != PASS_ATTEND
           && pass->steps[at - 1].kind != PASS_RECUR && pass->steps[at - 1].kind != PASS_EDIT)
        at--;
    if (at == 0 || at == pass->step_count || pass->steps[at - 1].stream != last_stream(pass)
        || !is_narrow(pass))
        return;
    memmove(pass->steps + at + 1, pass->steps + at,
            (size_t)(pass->step_count - at) * sizeof *pass->steps);
    pass->steps[at] =
        (struct pass_step){ .kind = PASS_NARROW, .stream = last_stream(pass), .layer = -1 };
    pass->step_count++;
}

void pass_widen(struct pass *pass)
{
    const int s = last_stream(pass);
    pass->row_count[s] = 0;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct pass_sequence *sequence = &pass->sequences[i];
        sequence->is_narrow = false;
        sequence->first[s] = pass->row_count[s];
        sequence->length[s] = sequence->item->streams[s].length;
        pass->row_count[s] += sequence->length[s];
    }
}

static void make_narrow(struct pass *pass)
{
    const int s = last_stream(pass);
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        pass->sequences[i].is_narrow = true;
        pass->sequences[i].first[s] = i;
        pass->sequences[i].length[s] = 1;
    }
    pass->row_count[s] = pass->sequence_count;
}

static bool narrow_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                        struct fault *fault)
{
    (void)fault;
    make_narrow(pass);
    pass_rows_work(pass->sequence_count, 2 * pass->forward->streams[step->stream].width, work);
    return true;
}

static int64_t narrow_tasks(struct pass *pass, const struct pass_step *step, int turn,
                            struct fault *fault)
{
    (void)step;
    (void)fault;
    if (turn == 0)
        return 1;
    make_narrow(pass);
    return PASS_OVER;
}

/* Rows move to the front, each to a place before those that are still to move. */
static void narrow_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    const int s = step->stream;
    const int64_t width = pass->forward->streams[s].width;
    const size_t bytes = (size_t)width * sizeof(float);
    (void)turn;
    (void)task;
    (void)workspace;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const int64_t from = sequence->first[s] + sequence->item->narrow_row;
        memmove(pass->rows[s] + i * width, pass->rows[s] + from * width, bytes);
        memmove(pass->output + i * width, pass->output + from * width, bytes);
        if (pass->first_rows) {
            memmove(pass->normed + i * width, pass->normed + from * width, bytes);
            memmove(pass->first_rows + i * width, pass->first_rows + from * width, bytes);
            pass_altup_move(pass, s, i, from);
            pass->ids[s][i] = pass->ids[s][from];
        }
    }
}

const struct pass_step_functions pass_narrow = { narrow_plan, narrow_tasks, narrow_run };
