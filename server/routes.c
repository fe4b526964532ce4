/* routes.c - see routes.h. */
#include "routes.h"

#include "health.h"
#include "infer_handlers.h"
#include "metrics.h"
#include "models.h"
#include "softmax_handler.h"

struct route *routes_table(int *count)
{
    static struct route routes[] = {
        { "GET", "/livez", health_live, true, 0 },
        { "GET", "/readyz", health_ready, true, 0 },
        { "GET", "/metrics", health_metrics, true, 0 },
        { "POST", "/v1/attention", infer_handle_attention, false, 0 },
        { "POST", "/v1/attention/batch", infer_handle_batch, false, 0 },
        { "POST", "/v1/softmax", softmax_handle, false, 0 },
        { "POST", "/v1/attention/merge", infer_handle_merge, false, 0 },
        { "POST", "/v1/attention/gradients", infer_handle_gradients, false, 0 },
        { "GET", "/v1/models", models_list, false, 0 },
        { "GET", "/v1/models/{model}", models_get, false, 0 },
        { "PUT", "/v1/models/{model}", models_put, false, 0 },
        { "DELETE", "/v1/models/{model}", models_delete, false, 0 },
    };
    *count = sizeof routes / sizeof routes[0];
    for (int i = 0; i < *count; i++)
        routes[i].metrics_index = metrics_route(routes[i].method, routes[i].pattern);
    return routes;
}

int routes_unknown(void)
{
    return metrics_route("", "unknown");
}
