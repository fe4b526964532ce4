/* model_view.h - the models that a caller may see. Functions that take a view treat all other
 * models as if they were not there. */
#ifndef ATTND_MODEL_VIEW_H
#define ATTND_MODEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>

struct model_view {
    bool (*shows)(const void *context, const char *name);
    const void *context;
};

/* Whether a view shows the models of a name; a view of NULL shows all. */
static inline bool model_view_shows(const struct model_view *view, const char *name)
{
    return !view || view->shows(view->context, name);
}

#endif
