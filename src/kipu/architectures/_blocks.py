"""Parts that several architectures share. Each reads weights of one layer (b) and records them (g)."""
from math import sqrt

from .._recorder import SILU


def qkv(g, b, hp, h, bias=False):
    """Queries, keys and values of h; biases where the architecture has them ('optional': where the file has them)."""
    def project(name, rows):
        matrix = b.matrix(name, hp.n_embd, rows)
        return g.linear(h, matrix, b.bias(name, rows, optional=bias == "optional") if bias else None)
    return (project("attn_q", hp.n_head * hp.head_dim_k), project("attn_k", hp.n_head_kv * hp.head_dim_k),
            project("attn_v", hp.n_head_kv * hp.head_dim_v))


def head_norms(g, b, hp, q, k):
    """RMS norm of every head of q and k."""
    return (g.rms_norm(q, b.vector("attn_q_norm", hp.head_dim_k), hp.norm_eps),
            g.rms_norm(k, b.vector("attn_k_norm", hp.head_dim_k), hp.norm_eps))


def rope(g, hp, x, factors=None, base=None, scale=None, fixed=False):
    return g.rope(x, hp.head_dim_k, hp.n_rot, hp.rope_type, hp.rope_freq_base if base is None else base,
                  hp.rope_freq_scale if scale is None else scale, factors, fixed)


def attend(g, b, hp, q, k, v, il, scale=None, softcap=0.0, bias=None):
    """Attention over the cache and its output projection."""
    out = g.attention(q, k, v, il, hp.n_head, hp.n_head_kv, scale or 1 / sqrt(hp.head_dim_k), softcap, hp.swa_layers[il])
    return g.linear(out, b.matrix("attn_output", hp.n_head * hp.head_dim_v, hp.n_embd), bias)


def gated_ffn(g, b, hp, h, act=SILU):
    """down(act(gate h) * up h)."""
    gate = g.linear(h, b.matrix("ffn_gate", hp.n_embd, hp.n_ff))
    up = g.linear(h, b.matrix("ffn_up", hp.n_embd, hp.n_ff))
    return g.linear(g.glu(gate, up, act), b.matrix("ffn_down", hp.n_ff, hp.n_embd))


def head(g, m, x, table, softcap=0.0):
    """Final norm and output matrix (the embedding table where the file has no other)."""
    hp = m.hp
    x = g.name(g.rms_norm(x, m.vector("output_norm", hp.n_embd), hp.norm_eps), "result_norm")
    output = m.matrix("output", hp.n_embd, hp.n_vocab, optional=True) or table
    g.logits(g.softcap(g.linear(x, output, m.bias("output", hp.n_vocab, optional=True)), softcap))
