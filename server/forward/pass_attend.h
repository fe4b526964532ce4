/* pass_attend.h - the attention layers of a pass. */
#ifndef ATTND_PASS_ATTEND_H
#define ATTND_PASS_ATTEND_H

#include "forward/pass_internal.h"

/* When all steps are planned: memory for the layer that needs most of it. */
bool pass_attend_allocate(struct pass *pass, struct fault *fault);

/* Gives back the parameters of the layer that the pass is at, if any. */
void pass_attend_drop(struct pass *pass);

#endif
