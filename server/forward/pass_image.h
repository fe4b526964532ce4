/* pass_image.h - the first rows of a stream of pixels or features. */
#ifndef ATTND_PASS_IMAGE_H
#define ATTND_PASS_IMAGE_H

#include "forward/pass_internal.h"

enum { PASS_IMAGE_TURNS = 4 }; /* the last one */

/* As those of struct pass_step_functions, for a stream whose input are pixels or features. */
bool pass_image_plan(struct pass *pass, int stream, struct attn_work *work, struct fault *fault);
int64_t pass_image_tasks(struct pass *pass, int stream, int turn);
void pass_image_run(const struct pass *pass, int stream, int turn, int64_t task, void *workspace);

#endif
