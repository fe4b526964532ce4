/* pass_experts.h - feed-forwards of a pass: the dense one in panels, and a mixture of experts. */
#ifndef ATTND_PASS_EXPERTS_H
#define ATTND_PASS_EXPERTS_H

#include "forward/pass_internal.h"

/* Room for the activations of a panel. */
bool pass_feed_panel(struct pass *pass, const struct model_feed_forward *feed, int64_t rows_max,
                     struct fault *fault);

void pass_feed_work(const struct pass *pass, const struct model_feed_forward *feed,
                    int64_t row_count, struct attn_work *work);

/* Prepares pass->product: a panel of activations from rows x. Returns its tasks. */
int64_t pass_feed_up(struct pass *pass, const struct model_feed_forward *feed, const float *x,
                     int64_t row_count);

/* As those of struct pass_step_functions, for a block with experts. */
bool pass_experts_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                       struct fault *fault);
int64_t pass_experts_tasks(struct pass *pass, const struct pass_step *step, int turn);
void pass_experts_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                      void *workspace);

#endif
