/* model_builtin.c - see model_builtin.h.
 *
 * The tutorial has four words of three numbers, and three matrices that it uses as x . W. They are
 * written to a safetensors file in memory, which is then opened like that of any other model. */
#include "store/model_builtin.h"

#include "formats/safetensors.h"
#include "model/model_storage.h"
#include "store/model_open.h"

#include <stdlib.h>

bool model_create_demo(struct model **model, struct fault *fault)
{
    static const float QUERY[] = { 2, 0, 2, 2, 0, 0, 2, 1, 2 };
    static const float KEY[] = { 2, 2, 2, 0, 2, 1, 0, 1, 1 };
    static const float VALUE[] = { 1, 1, 0, 0, 1, 1, 0, 0, 0 };
    static const struct safetensors_tensor TENSORS[] = {
        { "q_proj.weight", 2, { 3, 3 }, QUERY, NULL },
        { "k_proj.weight", 2, { 3, 3 }, KEY, NULL },
        { "v_proj.weight", 2, { 3, 3 }, VALUE, NULL },
    };
    static const char CONFIG[] = "{\"attention\":\"scaled_dot_product\",\"layout\":\"in_out\"}";
    void *bytes;
    size_t size;
    if (!safetensors_write(&bytes, &size, TENSORS, 3, "attnd", CONFIG, fault))
        return false;
    if (!model_create(model, "demo", "built-in", bytes, size, NULL, free, bytes, fault)) {
        free(bytes);
        return false;
    }
    (*model)->built_in = true;
    return true;
}

bool model_create_sdpa(struct model **model, struct fault *fault)
{
    if (!model_storage_create(model, "sdpa", "built-in", 1, fault))
        return false;
    struct model *made = *model;
    made->attention = "scaled_dot_product";
    made->built_in = true;
    made->parameterless = true;
    made->forward_reason = "the model has no parameters";
    made->layers[0].options = attn_options_default(1);
    made->layers[0].d_query = made->layers[0].d_key = -1; /* open: each call has its own */
    made->layers[0].d_value = made->layers[0].d_out = -1;
    return true;
}
