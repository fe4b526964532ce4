/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_contents.c - what is read from a good file, and that what is written is read. */
#include "made_model.h"
#include "test.h"

#include <time.h>

TEST(contents)
{
    static const char HEADER[] =
        "{\"__metadata__\":{\"k\\u00e9y\":\"v\",\"other\":\"\"},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[ 3 , 1 ],\"data_offsets\":[8,11]},"
        "\"a\\u0000\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[11,13]},"
        "\"\":{\"data_offsets\":[0,8],\"dtype\":\"F32\",\"shape\":[2,1,1,1,1,1,1,1,1,1]}}";
    struct safetensors file;
    struct guard_buffer guard;
    struct fault fault;
    uint64_t shape[10];
    assert_true(made_file_read(&file, &guard, HEADER, strlen(HEADER), 13, &fault));
    assert_int_equal(file.entry_count, 3);
    assert_int_equal(file.header_size, strlen(HEADER));
    const struct safetensors_entry *first = safetensors_find(&file, "");
    assert_ptr_equal(first, &file.entries[0]);
    assert_int_equal(first->rank, 10);
    safetensors_shape(first, shape, 10);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[9], 1);
    const struct safetensors_entry *b = safetensors_find(&file, "b");
    assert_ptr_equal(b, &file.entries[1]);
    assert_string_equal(b->dtype, "U8");
    assert_ptr_equal((const char *)b->data, (const char *)first->data + 8);
    assert_int_equal(b->size, 3);
    assert_null(safetensors_find(&file, "a")); /* its name goes on behind the NUL */
    assert_int_equal(file.entries[2].name_length, 2);
    assert_int_equal(file.metadata_count, 2);
    assert_string_equal(safetensors_metadata(&file, "k\xC3\xA9y")->value, "v");
    assert_int_equal(safetensors_metadata(&file, "other")->value_length, 0);
    assert_null(safetensors_metadata(&file, "b"));
    safetensors_free(&file);
    guard_free(&guard);
}

TEST(written_is_read)
{
    const float values[] = { 1, -2, 3.5f, 0, 5, 6 };
    const struct safetensors_tensor tensors[] = {
        { "q\"\xC3\xA9", 2, { 2, 3 }, values, NULL },
        { "empty", 2, { 0, 3 }, values, NULL },
        { "scalar", 0, { 0 }, values + 2, "F32" },
    };
    struct safetensors file;
    struct fault fault;
    void *bytes;
    size_t size;
    uint64_t shape[2];
    assert_true(safetensors_write(&bytes, &size, tensors, 3, "attnd", JSON({"a":"\""}), &fault));
    assert_true(safetensors_read(&file, bytes, size, &fault));
    assert_int_equal(file.header_size % 8, 0);
    assert_string_equal(safetensors_metadata(&file, "attnd")->value, JSON({"a":"\""}));
    const struct safetensors_entry *entry = safetensors_find(&file, "q\"\xC3\xA9");
    assert_non_null(entry);
    safetensors_shape(entry, shape, 2);
    assert_int_equal(shape[0] * 10 + shape[1], 23);
    assert_memory_equal(entry->data, values, sizeof values);
    assert_int_equal(safetensors_find(&file, "empty")->size, 0);
    assert_memory_equal(safetensors_find(&file, "scalar")->data, values + 2, sizeof(float));
    safetensors_free(&file);
    free(bytes);

    assert_true(safetensors_write(&bytes, &size, NULL, 0, "k", "", &fault));
    assert_true(safetensors_read(&file, bytes, size, &fault));
    assert_int_equal(file.entry_count, 0);
    safetensors_free(&file);
    free(bytes);

    const struct safetensors_tensor huge = { "h", 2, { INT64_MAX, 2 }, values, NULL };
    assert_false(safetensors_write(&bytes, &size, &huge, 1, "k", "", &fault));
    assert_int_equal(fault.code, FAULT_TOO_LARGE);
}

/* The time for a header of many names must not grow faster than the header. */
TEST(many_names)
{
    enum { COUNT = 100000 };
    char *header = malloc((size_t)COUNT * 80);
    size_t used = 1;
    struct safetensors file;
    struct guard_buffer guard;
    struct fault fault;
    assert_non_null(header);
    header[0] = '{';
    for (int i = 0; i < COUNT; i++)
        used += (size_t)sprintf(
            header + used, "\"%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}%s",
            COUNT - 1 - i, i, i + 1, i < COUNT - 1 ? "," : "}");
    const clock_t begin = clock();
    assert_true(made_file_read(&file, &guard, header, used, COUNT, &fault));
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        assert_ptr_equal(safetensors_find(&file, name), &file.entries[COUNT - 1 - i]);
    }
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 10);
    safetensors_free(&file);
    guard_free(&guard);
    free(header);
}
