# SPDX-License-Identifier: Apache-2.0
"""What a trace has, under the names that TransformerLens gives it."""

__all__ = ["Cache"]

# By the name behind `blocks.4.`, what a layer of a trace calls it. masked and hook_attn_scores are both what the
# softmax takes, behind softcap, biases and mask.
_OUTPUTS_OF_HOOKS = {"attn.hook_pattern": "weights", "attn.hook_attn_scores": "masked",
                     "hook_resid_pre": "hidden_states", "hook_resid_post": "hidden_states",
                     "hook_attn_out": "attention_output"}
_HOOKS = {name: hook for hook, name in _OUTPUTS_OF_HOOKS.items() if hook != "hook_resid_post"}
# Those of them and of others that are inside the attention, by the names that stand for them in short.
_INNER = {"pattern", "attn_scores", "q", "k", "v", "z", "result", "rot_q", "rot_k"}
_STACKS = {"self": "blocks", "encoder": "encoder", "decoder": "decoder", "cross": "decoder"}


def _first_layers(layers):
    """The number of the first layer of each kind; None where an encoder-decoder's layers are not all there."""
    kinds = [layer.get("kind") for layer in layers]
    if set(kinds) == {"self"}:
        return {"self": 0}
    counts = [kinds.count(kind) for kind in ("encoder", "decoder", "cross")]
    is_whole = counts[1] == counts[2] > 0 and sum(counts) == len(layers) \
        and [layer["layer"] for layer in layers] == list(range(len(layers)))
    return {"encoder": 0, "decoder": counts[0], "cross": counts[0] + counts[1]} if is_whole else None


def _hook_of(kind, output):
    """The name of an output behind that of its block; None where it has none."""
    hook = _HOOKS.get(output)
    if kind != "cross" or hook is None:
        return hook
    return {"hook_attn_out": "hook_cross_attn_out", "hook_resid_pre": None}.get(hook, "cross_" + hook)


class Cache(dict):
    """A trace's arrays by the names of TransformerLens' ActivationCache, without the dimension of a batch:
    `trace.cache["blocks.1.attn.hook_pattern"]`, or `trace.cache["pattern", 1]` for short.

    attn.hook_pattern is `weights`, attn.hook_attn_scores `masked`, hook_attn_out `attention_output` (before a norm
    behind it), hook_resid_pre `hidden_states`, and hook_resid_post those of the next block: of the last there are none.

    Blocks are `blocks.1`, of an encoder-decoder whose layers were all asked for `encoder.1` and `decoder.1`, whose
    cross attention is `decoder.1.cross_attn`. Under a weight_map a pattern is what that makes of it. Arrays are those
    of the trace and not copies.

    Parameters: trace, the Answer of Client.trace(). Raises KeyError for what is not there, which says what is, and
    which outputs to ask for.

    >>> trace = client.trace("Once upon a time", outputs=["weights", "hidden_states"])
    >>> trace.cache["blocks.1.attn.hook_pattern"].shape, trace.cache["resid_post", 0].shape
    ((8, 5, 5), (5, 64))
    """

    def __init__(self, trace):
        super().__init__()
        layers = trace.get("layers", [])
        first = _first_layers(layers)
        for layer in layers if first else ():
            kind = layer["kind"]
            number = layer["layer"] - first[kind]
            for output in _HOOKS:
                hook = _hook_of(kind, output)
                if output in layer and hook:
                    self["%s.%d.%s" % (_STACKS[kind], number, hook)] = layer[output]
                if output in layer and hook == "hook_resid_pre" and number > 0:
                    self["%s.%d.hook_resid_post" % (_STACKS[kind], number - 1)] = layer[output]
        self._are_blocks_known = first is not None or not layers

    def __missing__(self, name):
        if isinstance(name, tuple) and len(name) == 2:
            hook, layer = name
            return self["blocks.%s.%shook_%s" % (layer, "attn." if hook in _INNER else "", hook)]
        raise KeyError(self._lacks(name))

    def _lacks(self, name):
        """What to say where there is no such name."""
        hook = ".".join(str(name).split(".")[2:]).replace("cross_", "")
        output = _OUTPUTS_OF_HOOKS.get(hook)
        if not self._are_blocks_known:
            said = "blocks of several kinds have numbers where all layers of an encoder-decoder are traced"
        elif hook == "hook_resid_post" and any(key.endswith("hook_resid_pre") for key in self):
            said = "a block's post is the next one's hook_resid_pre, which is not there"
        elif output and not any(key.endswith(hook) for key in self):
            said = "ask for it by outputs=[%r]" % output
        elif output:
            said = "the trace has other layers"
        else:
            said = "no output of a trace is that"
        return "the cache has no %s: %s; it has %s" % (name, said, self._names() or "nothing")

    def _names(self):
        """What is there, a hook once with its blocks: "attn.hook_pattern of blocks.0 to blocks.4"."""
        blocks = {}
        for name in self:
            stack, number, hook = name.split(".", 2)
            blocks.setdefault((stack, hook), []).append(int(number))
        said = []
        for (stack, hook), numbers in blocks.items():
            is_range = len(numbers) > 2 and sorted(numbers) == list(range(min(numbers), max(numbers) + 1))
            names = ["%s.%d" % (stack, number) for number in sorted(numbers)]
            said.append("%s of %s" % (hook, "%s to %s" % (names[0], names[-1]) if is_range else ", ".join(names)))
        return "; ".join(said)
