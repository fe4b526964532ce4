/* v1_weight_map.c - see v1_weight_map.h. */
#include "wire/v1_weight_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS_MAX = 5 };

/* Points faults at a member of the object at prefix: "/weight_map/top_k". */
static void point_to_member(struct v1_reader *reader, const char *prefix, const char *name)
{
    reader->name = name;
    snprintf(reader->pointer, sizeof reader->pointer, "%s", prefix);
    fault_pointer_append(reader->pointer, strlen(prefix), name);
}

/* Reads a list of indices in ascending order, each once. */
static bool read_list(struct v1_reader *reader, const cJSON *node, const char *expected,
                      const int64_t **list, int64_t *count)
{
    int64_t *values = NULL;
    const struct json_numbers *numbers = v1_read_numbers(reader, node, expected);
    if (!numbers || !v1_expect_numbers(reader, numbers, false))
        return false;
    if (numbers->rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s is not a list of numbers; expected %s", reader->name, expected);
    if (!v1_integers_of(reader, numbers, FAULT_OPTION, &values))
        return false;
    for (int64_t i = 1; i < numbers->count; i++)
        if (values[i] <= values[i - 1])
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "%s[%" PRId64 "] is %" PRId64 " after %" PRId64
                                "; expected each once, in ascending order",
                                reader->name, i, values[i], values[i - 1]);
    *list = values;
    *count = numbers->count;
    return true;
}

static bool read_heads(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map)
{
    const char *expected = "\"all\", \"mean\", \"max\" or an array of head numbers";
    if (!cJSON_IsString(node))
        return read_list(reader, node, expected, &map->head_list, &map->head_count);
    if (strcmp(node->valuestring, "mean") == 0)
        map->heads = ATTN_MAP_MEAN;
    else if (strcmp(node->valuestring, "max") == 0)
        map->heads = ATTN_MAP_MAX;
    else if (strcmp(node->valuestring, "all") != 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "heads is '%.60s'; expected %s", node->valuestring, expected);
    return true;
}

static bool read_rows(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map)
{
    return read_list(reader, node, "an array of row numbers", &map->row_list, &map->row_count);
}

static bool read_top_k(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map)
{
    return v1_read_integer(reader, node, 1, FAULT_OPTION, &map->top_k);
}

/* NULL: the fault is set. */
static const int64_t *read_two(struct v1_reader *reader, const cJSON *node, const char *expected)
{
    int64_t *values = NULL;
    const struct json_numbers *numbers = v1_read_numbers(reader, node, expected);
    if (!numbers || !v1_expect_numbers(reader, numbers, false))
        return NULL;
    if (numbers->rank != 1 || numbers->count != 2) {
        fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                     "%s is not two numbers; expected %s", reader->name, expected);
        return NULL;
    }
    return v1_integers_of(reader, numbers, FAULT_OPTION, &values) ? values : NULL;
}

static bool read_pool(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map)
{
    const int64_t *sizes = read_two(reader, node, "[rows, columns]");
    if (!sizes)
        return false;
    if (sizes[0] < 1 || sizes[1] < 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "pool is [%" PRId64 ", %" PRId64 "]; expected 1 or more of each",
                            sizes[0], sizes[1]);
    map->pool_rows = sizes[0];
    map->pool_columns = sizes[1];
    return true;
}

struct member {
    const char *name;
    bool (*read)(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map);
};

/* Reads an object whose members are all optional; null is as good as absent. */
static bool read_members(struct v1_reader *reader, const cJSON *node, const char *prefix,
                         const struct member *members, int count, struct attn_weight_map *map)
{
    const char *known[MEMBERS_MAX];
    const cJSON *value;
    if (!cJSON_IsObject(node))
        return v1_wrong_type(reader, node, "an object");
    for (int i = 0; i < count; i++)
        known[i] = members[i].name;
    cJSON_ArrayForEach(value, node)
    {
        int i = 0;
        while (i < count && strcmp(members[i].name, value->string) != 0)
            i++;
        point_to_member(reader, prefix, value->string);
        if (i == count)
            return v1_unknown_field(reader, value->string, known, count);
        if (!cJSON_IsNull(value) && !members[i].read(reader, value, map))
            return false;
    }
    return true;
}

static bool read_range(struct v1_reader *reader, const cJSON *node, struct attn_map_range *range)
{
    const int64_t *ends = read_two(reader, node, "[begin, end]");
    if (!ends)
        return false;
    if (ends[1] <= ends[0])
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is [%" PRId64 ", %" PRId64 "]; expected an end above its begin",
                            reader->name, ends[0], ends[1]);
    *range = (struct attn_map_range){ ends[0], ends[1] };
    return true;
}

static bool read_region_rows(struct v1_reader *reader, const cJSON *node,
                             struct attn_weight_map *map)
{
    return read_range(reader, node, &map->region_rows);
}

static bool read_region_keys(struct v1_reader *reader, const cJSON *node,
                             struct attn_weight_map *map)
{
    return read_range(reader, node, &map->region_keys);
}

static bool read_region(struct v1_reader *reader, const cJSON *node, struct attn_weight_map *map)
{
    static const struct member members[] = { { "rows", read_region_rows },
                                             { "keys", read_region_keys } };
    return read_members(reader, node, "/weight_map/region", members,
                        sizeof members / sizeof members[0], map);
}

bool v1_read_weight_map(struct v1_reader *reader, const cJSON *node)
{
    static const struct member members[MEMBERS_MAX] = {
        { "heads", read_heads }, { "rows", read_rows }, { "region", read_region },
        { "top_k", read_top_k }, { "pool", read_pool },
    };
    struct attn_weight_map map = { .heads = ATTN_MAP_EACH };
    if (!read_members(reader, node, "/weight_map", members, MEMBERS_MAX, &map))
        return false;
    reader->item->has_weight_map = true;
    reader->item->weight_map = map;
    return true;
}
