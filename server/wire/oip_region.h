/* oip_region.h - tensors in shared memory: the parameters of an input or output that name a region,
 * and the bytes in it. */
#ifndef ATTND_OIP_REGION_H
#define ATTND_OIP_REGION_H

#include "wire/oip_reader.h"

/* Reads the parameters shared_memory_* of an entry of "inputs" or "outputs", called name; place's
 * region is NULL where it has none. Else the region is found, holds the bytes, and is the request's
 * until it ends. */
bool oip_region_find(struct oip_reader *reader, const char *list, int index, const cJSON *object,
                     const char *name, struct oip_place *place);

/* Reads the numbers of the input in this slot, a copy in the request's arena, from place. */
bool oip_region_read(struct oip_reader *reader, int slot, const struct oip_place *place);

/* Whether a result of so many bytes fits into the place that the output asks for. */
bool oip_region_fits(const struct oip *oip, const struct oip_output *output, size_t bytes,
                     struct fault *fault);

/* Writes such a result there. */
bool oip_region_write(const struct oip_output *output, const void *bytes, size_t size,
                      struct fault *fault);

#endif
