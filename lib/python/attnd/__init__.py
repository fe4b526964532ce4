# SPDX-License-Identifier: Apache-2.0
"""Attention from Python: in this process over libattn.so, or by an attnd daemon. It needs numpy alone.

    attnd.local     scaled_dot_product_attention(), its gradients and softmax() as in torch, on numpy arrays and on
                    CPU tensors of others (torch; whatever has __dlpack__) where they lie; needs libattn.so.1
    attnd.Client    the daemon's HTTP API: attention, batches, traces, tokens, sessions, models; tensors go as bytes
    attnd.WeightMap weights that draw themselves in a notebook
    attnd.show()    weights of any model in the daemon's page: in a notebook, or as one HTML file that works offline
    attnd.attention_interface()    an attention function for transformers that also gives the weights

Arrays are [batch, heads, length, head_dim] as in torch; fewer dimensions lack those in front.
"""

from .attention import Local, attention_interface, local
from .weight_map import WeightMap
from .answers import SAFETENSORS, Answer, AttndError, BadRequest, Conflict, ConnectionFailed, DeadlineExceeded
from .answers import Forbidden, Gone, NotFound, Overloaded, StorageFailed, TooLarge, Unauthorized, Unavailable
from .cache import Cache
from .client import Client
from .sessions import KeptTrace, Session
from .shown import Shown, show

__version__ = "0.2.0"
__all__ = ["Answer", "AttndError", "BadRequest", "Cache", "Client", "Conflict", "ConnectionFailed", "DeadlineExceeded",
           "Forbidden", "Gone", "KeptTrace", "Local", "NotFound", "Overloaded", "SAFETENSORS", "Session",
           "Shown", "StorageFailed", "TooLarge", "Unauthorized", "Unavailable", "WeightMap", "attention_interface",
           "local", "show"]

# All are attnd's, wherever they are written: so a pickle of one leads to the other form of this module, too.
for _name in __all__:
    if isinstance(globals()[_name], type) or _name in ("attention_interface", "show"):
        globals()[_name].__module__ = "attnd"
