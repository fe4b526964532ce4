// SPDX-License-Identifier: Apache-2.0
// simdjson_reader.cpp - the same body read by simdjson, for bench_json.c to put beside ours.
//
// Its "on demand" interface, which is its fastest for numbers that go straight into an array.
// Built only where simdjson is there; nothing but the bench needs it.
#include <simdjson.h>

#include <new>

extern "C" {
void *simdjson_reader_create(const char *text, size_t size);
void simdjson_reader_free(void *reader);
size_t simdjson_reader_read(void *reader, float *values);
}

namespace
{
struct reader {
    reader(const char *text, size_t size) : body(text, size)
    {
    }
    simdjson::padded_string body;
    simdjson::ondemand::parser parser;
};
} // namespace

void *simdjson_reader_create(const char *text, size_t size)
{
    return new (std::nothrow) reader(text, size);
}

void simdjson_reader_free(void *given)
{
    delete static_cast<reader *>(given);
}

// The numbers of every row of "query"; 0 where the body is wrong.
size_t simdjson_reader_read(void *given, float *values)
{
    reader *self = static_cast<reader *>(given);
    size_t count = 0;
    try {
        simdjson::ondemand::document document = self->parser.iterate(self->body);
        for (auto row : document["query"].get_array())
            for (auto number : row.get_array())
                values[count++] = static_cast<float>(double(number.get_double()));
    } catch (const simdjson::simdjson_error &) {
        return 0;
    }
    return count;
}
