/* checkpoint_quantised.c - see checkpoint_quantised.h.
 *
 * Most quantised checkpoints say so in config.json. Older ones say so in another file, and are
 * known by the tensors that they have in place of a weight: packed integers, and their scales. The
 * message names the method, for a complaint about a weight's shape would look like a mistake in the
 * file. */
#include "checkpoint/checkpoint_quantised.h"

#include "base/dtype.h"
#include "checkpoint/checkpoint_fields.h"

#include <string.h>

#define REMEDY                                                                                     \
    "expected " DTYPE_NUMBERS " parameters; take the model that it was made from, or "             \
    "dequantise it and save it as safetensors"

/* The method that config.json names; NULL: none. Mistral's own params.json and MLX call the object
 * quantization. */
static const char *method_of(const cJSON *root)
{
    const cJSON *node = checkpoint_find_object(root, "quantization_config|quantization");
    if (!node || !node->child)
        return NULL;
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(node, "quant_method");
    if (cJSON_IsString(method))
        return method->valuestring;
    /* The first releases of bitsandbytes did not name the method. */
    return cJSON_GetObjectItemCaseSensitive(node, "load_in_8bit")
                   || cJSON_GetObjectItemCaseSensitive(node, "load_in_4bit")
               ? "bitsandbytes"
               : "not said";
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), ending_length = strlen(ending);
    return length >= ending_length && strcmp(name + length - ending_length, ending) == 0;
}

/* The first tensor that only a method of quantisation writes, and which method; NULL: none. */
static const char *find_tensor(const struct model_tensors *tensors, const char **method)
{
    static const struct {
        const char *ending, *method;
    } ENDINGS[] = {
        { ".qweight", "GPTQ or AWQ" },
        { ".qzeros", "GPTQ or AWQ" },
        { ".SCB", "bitsandbytes, 8 bits" },
        { ".weight.absmax", "bitsandbytes, 4 bits" },
        { ".weight.quant_map", "bitsandbytes, 4 bits" },
        { ".weight_packed", "compressed-tensors" },
    };
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const char *name = model_tensors_at(tensors, i)->name;
        for (size_t j = 0; j < sizeof ENDINGS / sizeof ENDINGS[0]; j++)
            if (ends_with(name, ENDINGS[j].ending)) {
                *method = ENDINGS[j].method;
                return name;
            }
    }
    return NULL;
}

bool checkpoint_quantised_check(const cJSON *root, const struct model_tensors *tensors,
                                struct fault *fault)
{
    const char *method = method_of(root);
    if (method)
        return fault_set_at(fault, "/config/quantization_config", FAULT_DTYPE,
                            "the checkpoint is quantised (quant_method '%.40s'); " REMEDY, method);
    const char *tensor = find_tensor(tensors, &method);
    return !tensor
           || fault_set_at(fault, "/parameters", FAULT_DTYPE,
                           "the checkpoint is quantised (%s: it has a tensor '%.100s'); " REMEDY,
                           method, tensor);
}
