/* SPDX-License-Identifier: Apache-2.0 */
/* npy_bytes.h - the heads of .npy files as numpy 1.24.2 writes them (numpy.lib.format.write_array,
 * by numpy's specification of the format). The numbers behind them are each test's. */
#ifndef NPY_BYTES_H
#define NPY_BYTES_H

#define NPY_BLANKS_10 "          "
#define NPY_BLANKS_50 NPY_BLANKS_10 NPY_BLANKS_10 NPY_BLANKS_10 NPY_BLANKS_10 NPY_BLANKS_10

/* The dict of an array in rows; with such a shape as (1, 3) it has 59 bytes. */
#define NPY_DICT(descr, shape)                                                                     \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

/* All that comes before the numbers, in version 1.0. pad is a blank for each byte that the dict has
 * below 59. */
#define NPY_HEAD_PADDED(descr, shape, pad)                                                         \
    "\x93NUMPY\x01\0v\0" NPY_DICT(descr, shape) NPY_BLANKS_50 "        " pad "\n"
#define NPY_HEAD(descr, shape) NPY_HEAD_PADDED(descr, shape, "")

#endif
