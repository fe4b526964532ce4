/* oip_region.c - see oip_region.h. Messages follow Triton's where it has one. */
#include "wire/oip_region.h"

#include "access/access_key.h"
#include "regions/regions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REGION    "shared_memory_region"
#define BYTE_SIZE "shared_memory_byte_size"
#define OFFSET    "shared_memory_offset"

/* Makes the fault one of a member of the entry's parameters. */
static bool at(struct fault *fault, const char *list, int index, const char *member)
{
    snprintf(fault->pointer, sizeof fault->pointer, "/%s/%d/parameters/%s", list, index, member);
    return false;
}

/* One that is absent leaves *value. */
static bool read_bytes(struct oip_reader *reader, const char *list, int index, const cJSON *object,
                       const char *name, uint64_t *value, bool *is_there)
{
    const cJSON *node;
    if (!oip_parameter_member(reader, list, index, object, name, &node))
        return false;
    *is_there = node != NULL;
    if (!node || json_whole(node, value))
        return true;
    fault_set(reader->fault, FAULT_TYPE,
              "Unable to parse '%s'; expected an integer from 0 and below 2^53", name);
    return at(reader->fault, list, index, name);
}

/* Finds the region for the key of the request. */
static struct region *find(struct oip_reader *reader, const char *list, const char *region,
                           const char *name)
{
    struct call *call = &reader->call->base;
    const struct access_key *key = reader->call->limits.key;
    struct regions *regions = call->service ? call->service->regions : NULL;
    if (!regions) {
        fault_set(reader->fault, FAULT_FIELD,
                  "%.*s '%s' is in shared memory, which is not offered; the operator allows it "
                  "with --shared-memory-prefix",
                  (int)strlen(list) - 1, list, name);
        return NULL;
    }
    return access_check_scope(key, ACCESS_REGIONS, reader->fault)
               ? regions_held_find(&call->regions, regions, key, region, reader->fault)
               : NULL;
}

bool oip_region_find(struct oip_reader *reader, const char *list, int index, const cJSON *object,
                     const char *name, struct oip_place *place)
{
    const cJSON *region;
    bool has_size, has_offset;
    *place = (struct oip_place){ .region = NULL };
    if (!oip_parameter_member(reader, list, index, object, REGION, &region)
        || !read_bytes(reader, list, index, object, BYTE_SIZE, &place->size, &has_size)
        || !read_bytes(reader, list, index, object, OFFSET, &place->offset, &has_offset))
        return false;
    if (!region && !has_size && !has_offset)
        return true;
    if (!region || !cJSON_IsString(region)) {
        fault_set(reader->fault, region ? FAULT_TYPE : FAULT_FIELD,
                  "Unable to parse '" REGION "' of '%s'; expected the name of a region", name);
        return at(reader->fault, list, index, REGION);
    }
    place->region = find(reader, list, region->valuestring, name);
    if (!place->region)
        return at(reader->fault, list, index, REGION);
    if (!has_size) {
        fault_set(reader->fault, FAULT_FIELD, "'%s' has a " REGION " and no " BYTE_SIZE, name);
        return at(reader->fault, list, index, BYTE_SIZE);
    }
    return region_check(place->region, place->offset, place->size, reader->fault)
           || at(reader->fault, list, index,
                 place->offset > place->region->size ? OFFSET : BYTE_SIZE);
}

bool oip_region_read(struct oip_reader *reader, int slot, const struct oip_place *place)
{
    const struct oip_input *input = &reader->oip->inputs[slot];
    const size_t size = (size_t)input->count * input->datatype->size;
    if (place->size != size)
        return oip_refuse(
            reader->fault, "inputs", input->index, "parameters/" BYTE_SIZE, FAULT_BINARY,
            "input byte size mismatch for input '%s' for model '%s'. Expected %zu, got %" PRIu64,
            reader->oip->inputs_known[slot].name, reader->oip->model->name, size, place->size);
    if (size > reader->call->limits.scratch_bytes_max)
        return oip_refuse(reader->fault, "inputs", input->index, "shape", FAULT_TOO_LARGE,
                          "input '%s' takes %zu bytes; a request may take %zu",
                          reader->oip->inputs_known[slot].name, size,
                          reader->call->limits.scratch_bytes_max);
    void *bytes = arena_alloc(&reader->call->request.arena, size);
    if (!bytes)
        return fault_no_memory(reader->fault);
    return (region_read(place->region, place->offset, bytes, size, reader->fault)
            || at(reader->fault, "inputs", input->index, REGION))
           && oip_take_bytes(reader, slot, bytes);
}

bool oip_region_fits(const struct oip *oip, const struct oip_output *output, size_t bytes,
                     struct fault *fault)
{
    if (bytes <= output->place.size)
        return true;
    fault_set(fault, FAULT_BINARY,
              "shared memory size specified with the request for output '%s' (%" PRIu64
              " bytes) should be at least %zu bytes to hold the results",
              oip->outputs_known[output->slot].name, output->place.size, bytes);
    return at(fault, "outputs", output->index, BYTE_SIZE);
}

bool oip_region_write(const struct oip_output *output, const void *bytes, size_t size,
                      struct fault *fault)
{
    return region_write(output->place.region, output->place.offset, bytes, size, fault)
           || at(fault, "outputs", output->index, REGION);
}
