"""qwen3: qwen2 without biases, with a norm on every head of queries and keys. Yang et al. 2025."""
from .._recorder import NEOX
from ._blocks import attend, gated_ffn, head, head_norms, qkv, rope


def hyper_params(hp):
    hp.rope_type = NEOX


def build(g, m):
    hp = m.hp
    table = m.matrix("token_embd", hp.n_embd, hp.n_vocab)
    x = g.embed(table)
    for il in range(hp.n_layer):
        b = m.block(il)
        h = g.name(g.rms_norm(x, b.vector("attn_norm", hp.n_embd), hp.norm_eps), "attn_norm", il)
        q, k, v = qkv(g, b, hp, h)
        q, k = head_norms(g, b, hp, q, k)
        q, k = rope(g, hp, q), rope(g, hp, k)
        x = g.name(attend(g, b, hp, q, k, v, il) + x, "ffn_inp", il)
        h = g.name(g.rms_norm(x, b.vector("ffn_norm", hp.n_embd), hp.norm_eps), "ffn_norm", il)
        x = g.name(gated_ffn(g, b, hp, h) + x, "l_out", il)
    head(g, m, x, table)
