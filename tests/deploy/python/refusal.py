# SPDX-License-Identifier: Apache-2.0
"""Calls that must be refused."""


def expect(kind, call, **fields):
    """Calls, and returns the error of this kind that it raises, whose fields have these values."""
    try:
        call()
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return error
    raise AssertionError("not refused")
