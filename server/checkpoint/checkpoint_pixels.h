/* checkpoint_pixels.h - how a picture becomes pixels, by preprocessor_config.json. */
#ifndef ATTND_CHECKPOINT_PIXELS_H
#define ATTND_CHECKPOINT_PIXELS_H

#include "model/model.h"

/* Sets model->pixels where the model takes pixels: from the text of its preprocessor_config.json,
 * which may be NULL, or what the family was made with where there is none or it is refused; refused
 * may say why before the text is read. False: no memory. */
bool checkpoint_pixels_set(struct model *model, const char *text, const char *refused,
                           struct fault *fault);

#endif
