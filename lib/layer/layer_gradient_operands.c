/* layer_gradient_operands.c - the gradients of a layer's query, key and value: which are wanted,
 * and where they are stored. */
#include "base/internal.h"
#include "layer/layer_gradient_internal.h"

void attn_operand_gradients(const struct attn_layer_gradient_plan_full *plan, void *scratch,
                            const struct attn_operand operands[ATTN_OPERAND_COUNT],
                            struct attn_operand_gradient gradients[ATTN_OPERAND_COUNT])
{
    const struct attn_layer_gradient_problem *problem = &plan->problem;
    float *const inputs[ATTN_OPERAND_COUNT] = { problem->query, problem->key, problem->value };
    const struct attn_linear_gradient linears[ATTN_OPERAND_COUNT] = { problem->q_proj,
                                                                      problem->k_proj,
                                                                      problem->v_proj };
    const struct attn_norm_gradient norms[ATTN_OPERAND_COUNT] = { problem->q_norm,
                                                                  problem->k_norm,
                                                                  { NULL, NULL } };

    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const struct attn_operand *operand = &operands[i];
        const struct attn_tensor *input = operand->input;
        const int64_t length = input->shape[2];
        struct attn_operand_gradient *gradient = &gradients[i];
        *gradient = (struct attn_operand_gradient){
            .is_projected = operand->linear->weight != NULL,
            .input = inputs[i],
            .linear = linears[i],
            .norm = norms[i],
        };
        gradient->is_wanted = inputs[i] != NULL || linears[i].weight != NULL
                              || linears[i].bias != NULL || norms[i].weight != NULL
                              || norms[i].bias != NULL;
        gradient->is_in_scratch =
            gradient->is_wanted && (gradient->is_projected || inputs[i] == NULL);
        gradient->is_changed =
            gradient->is_wanted
            && (operand->norm != NULL
                || (gradient->is_projected && problem->layer.layer->projected_max > 0));
        if (gradient->is_projected || input->shape[1] == 1)
            gradient->view =
                attn_tensor_rows(NULL, ATTN_F32, 1, operand->heads, length, operand->head_dim,
                                 operand->heads * operand->head_dim);
        else
            gradient->view =
                attn_tensor_dense(NULL, ATTN_F32, 1, operand->heads, length, operand->head_dim);
        if (gradient->is_in_scratch && scratch != NULL)
            gradient->view.data = (char *)scratch + plan->operand_offset[i];
        else if (gradient->is_in_scratch)
            gradient->view.data = (void *)problem->context_gradient;
        else
            gradient->view.data = inputs[i];
    }
}
