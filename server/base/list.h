/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - doubly linked lists, in the order of arrival. Each item carries the two pointers of the
 * list, so a list needs no memory of its own and any item is taken out in one step.
 *
 * These are macros, so that the pointers have the items' type. `link` is the member, a LIST_LINK,
 * that joins an item to the list; an item can be in as many lists as it has links. A zeroed list is
 * empty, and a zeroed link is in no list. Lists borrow their items; callers hold the locks. The
 * macros evaluate their arguments more than once. */
#ifndef ATTND_LIST_H
#define ATTND_LIST_H

#include <stddef.h>

#define LIST_OF(type)                                                                              \
    struct {                                                                                       \
        type *first, *last;                                                                        \
    }

#define LIST_LINK(type)                                                                            \
    struct {                                                                                       \
        type *next, *previous;                                                                     \
    }

/* Whether an item is in this list. By this link the item may be in this list or in none. */
#define LIST_HAS(list, item, link) ((list)->first == (item) || (item)->link.previous)

#define LIST_APPEND(list, item, link)                                                              \
    do {                                                                                           \
        (item)->link.next = NULL;                                                                  \
        (item)->link.previous = (list)->last;                                                      \
        *((list)->last ? &(list)->last->link.next : &(list)->first) = (item);                      \
        (list)->last = (item);                                                                     \
    } while (0)

/* Takes out an item that is in the list. A loop over the list must read `next` before. */
#define LIST_TAKE_OUT(list, item, link)                                                            \
    do {                                                                                           \
        *((item)->link.previous ? &(item)->link.previous->link.next : &(list)->first) =            \
            (item)->link.next;                                                                     \
        *((item)->link.next ? &(item)->link.next->link.previous : &(list)->last) =                 \
            (item)->link.previous;                                                                 \
        (item)->link.next = (item)->link.previous = NULL;                                          \
    } while (0)

#endif
