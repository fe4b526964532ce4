/* model_pixels.h - how a picture becomes the pixels that a model takes, for clients that have a
 * picture. The daemon itself takes pixels as they come. */
#ifndef ATTND_MODEL_PIXELS_H
#define ATTND_MODEL_PIXELS_H

#include <stdbool.h>
#include <stdint.h>

struct model_embedding;

/* Of a picture whose values are 0 to 255, channel c becomes (value / 255 - mean[c]) / std[c]. */
struct model_pixels {
    const struct model_embedding *embedding; /* of the stream that takes them */
    const double *mean, *std;                /* [embedding->channels] */
    bool crop; /* the shorter side is scaled to fit and the middle is cut out; else both are scaled
                */
    bool from_file; /* preprocessor_config.json says so; else it is what the family was made with */
    const char *reason; /* why that file was refused; NULL: it was not, or there is none */
};

/* The same of a family, for pictures of three channels. */
struct model_pixel_range {
    double mean[3], std[3];
    bool crop;
};

#endif
