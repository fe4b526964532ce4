/* tokenizer_open.c - a tokenizer from the files of a folder. */
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

static bool read_folder(struct tokenizer *tokenizer, const char *directory, struct fault *fault)
{
    char *text;
    size_t size;
    if (!tokenizer_file_read(directory, "tokenizer.json", &text, &size, fault))
        return false;
    if (!text)
        return tokenizer_read_older(tokenizer, directory, fault);
    const bool is_fine = tokenizer_read_json(tokenizer, text, size, fault);
    free(text);
    return is_fine;
}

bool tokenizer_open(struct tokenizer **tokenizer, const char *directory, struct fault *fault)
{
    *tokenizer = NULL;
    struct tokenizer *made = tokenizer_new();
    if (!made)
        return fault_no_memory(fault);
    const bool is_fine = read_folder(made, directory, fault);
    if (is_fine && made->model.type)
        *tokenizer = made;
    else
        tokenizer_free(made);
    return is_fine;
}
