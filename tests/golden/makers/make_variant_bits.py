#!/usr/bin/python3
"""The numeric contract for the models of make_variants.py, bit for bit: grokd_reference.py with what docs/numerics.md,
section 5, says other models have besides.

  make_variant_bits.py OUT_DIR     NAME.json for each, formats as in make_bit_golden.py, and units-silu.json"""
import json, math, os, sys
import numpy as np
import grokd_reference as B
from grokd_reference import F, exp32, fma, lane_sum, log64, quantise, router, tree
from make_bit_golden import b32, fnv, f32, noise, run
from make_variants import VARIANTS, values


def silu(x):
    return x / (F(1) + exp32(-x))


def scaled(inv, theta, d, s):
    if not s:
        return inv
    kind, f = s["rope_type"], s["factor"]
    if kind == "linear":
        return [v / f for v in inv]
    n = s["original_max_position_embeddings"]
    if kind == "llama3":
        lo, hi, out = s["low_freq_factor"], s["high_freq_factor"], []
        for v in inv:
            w = 2 * math.pi / v
            if w > n / lo:
                v = v / f
            elif not w < n / hi:
                a = (n / w - lo) / (hi - lo)
                v = ((1 - a) * v) / f + a * v
            out.append(v)
        return out
    dim = lambda r: d * math.log(n / (r * (2 * math.pi))) / (2 * math.log(theta))
    lo, hi = max(math.floor(dim(s["beta_fast"])), 0.0), min(math.ceil(dim(s["beta_slow"])), d - 1.0)
    hi = hi + 0.001 if hi == lo else hi
    keep = [1 - min(max((i - lo) / (hi - lo), 0.0), 1.0) for i in range(len(inv))]
    return [(v / f) * (1 - k) + v * k for v, k in zip(inv, keep)]


def rope_table(c, positions):
    inv = scaled(B.rope_inverse(c.rope_theta, c.key_size), c.rope_theta, c.key_size, c.rope_scaling)
    s = c.rope_scaling
    m = 0.1 * math.log(s["factor"]) + 1 if s and s["rope_type"] == "yarn" else 1.0
    table = lambda f: np.array([[f(p * v) * m for v in inv] for p in range(positions)], np.float64).astype(F)
    return table(math.cos), table(math.sin)


def attend(qc, qs, kc, ks, vc, vs, pos, mult, cap, temp, window):
    """as in grokd_reference, with a factor for each query and a window"""
    T, S = len(qc), len(kc)
    s = (qc @ kc.T).astype(F) * (qs[:, None] * ks[None, :])
    s = s * F(mult)
    if cap:
        s = F(cap) * B.tanh32(s * F(1.0 / cap))
    s = s * temp[:, None]
    j = np.arange(S)[None, :]
    seen = (j <= pos[:, None]) & ((j > pos[:, None] - window) if window else True)
    parts = []
    for b in range(0, S, 64):
        v, x = seen[:, b:b + 64], s[:, b:b + 64]
        m = np.zeros(T, F) if cap else np.where(v, x, F(-np.inf)).max(-1)
        e = np.where(v, exp32(x if cap else x - m[:, None]), F(0))
        wc, sw = quantise(np.where(v, e * vs[None, b:b + 64], F(0)))
        parts.append((v.any(-1), m, (wc @ vc[b:b + 64]).astype(F) * sw[:, None], lane_sum(e)))
    num, den = np.zeros((T, kc.shape[-1]), F), np.zeros(T, F)
    if not cap:
        M = np.stack([np.where(o, m, F(-np.inf)) for o, m, _, _ in parts]).max(0)
    for o, m, nb, db in parts:
        if not cap:
            f = exp32(m - M)
            nb, db = nb * f[:, None], db * f
        num, den = np.where(o[:, None], num + nb, num), np.where(o, den + db, den)
    return num / den[:, None]


class Variant(B.Model):
    def __init__(self, c):
        params = values(c)
        if c.dense_ffn_size:
            half = F(math.sqrt(0.5))
            params = {p: (v[0], v[1] * half) if p.endswith("/linear_1/w") else v for p, v in params.items()}
        rows = ("moe/linear_1/w", "dense/linear_1/w", "multi_head_attention/linear/w")
        self.c, self.tp, self.p = c, 1, {}
        for path, v in params.items():
            g = c.scale_groups if path.endswith(rows) else 1
            if not isinstance(v, tuple):
                self.p[path] = v.astype(F)
            elif v[0].ndim == 3:
                self.p[path] = [B.Matrix(v[0][e], v[1][e], g) for e in range(len(v[0]))]
            else:
                self.p[path] = B.Matrix(*v, g)
        self.emb = self.p["language_model/in_out_embed/embeddings"]
        self.hq, self.hs = B.head_codes(self.emb if c.tied_embeddings else self.p["language_model/out_embed/embeddings"])
        self.cos, self.sin = rope_table(c, c.sequence_len)

    def new_cache(self, capacity=None):
        return B.Cache(self.c, capacity or self.c.sequence_len)

    def norm(self, x, path):
        return super().norm(x, path) if path + "/scale" in self.p else x

    def temperature(self, pos):
        n = self.c.attn_temperature_len
        t = [F(log64(np.array([float(p)]))[0] / log64(np.array([float(n)]))[0]) if n and p > n else F(1) for p in pos]
        return np.array(t, F)

    def attention(self, x, path, cache, L):
        c, T, d, H = self.c, len(x), self.c.key_size, self.c.num_q_heads
        pos, S, per = cache.step + np.arange(T), cache.step + T, c.num_q_heads // c.num_kv_heads
        wq, wk, wv, wo = (self.p[path + n + "/w"] for n in ("query", "key", "value", "linear"))
        qc, qs = quantise(B.rope(wq.group(x, 0).reshape(T, H, d), self.cos[pos], self.sin[pos]))
        k = B.rope(wk.group(x, 0).reshape(T, -1, d), self.cos[pos], self.sin[pos])
        cache.kc[L, pos], cache.ks[L, pos] = quantise(k)
        cache.vc[L, pos], cache.vs[L, pos] = quantise(wv.group(x, 0).reshape(T, -1, d))
        t = self.temperature(pos)
        o = np.concatenate([attend(qc[:, h], qs[:, h], cache.kc[L, :S, h // per], cache.ks[L, :S, h // per], cache.vc[L, :S, h // per], cache.vs[L, :S, h // per],
                                   pos, c.attn_output_multiplier, c.attn_logit_cap, t, c.sliding_window) for h in range(H)], -1)
        return tree([wo.group(o[:, i * wo.kg:(i + 1) * wo.kg], i) for i in range(wo.G)])

    def expert(self, x, W, V, O):
        act = silu if self.c.activation == "silu" else B.gelu
        h = act(W.group(x, 0)) * V.group(x, 0)
        return [O.group(h[:, i * O.kg:(i + 1) * O.kg], i) for i in range(O.G)]

    def moe(self, x, path, tr):
        c, T, K = self.c, len(x), self.c.num_selected_experts
        W, V, O = (self.p[path + "moe/" + n + "/w"] for n in ("linear", "linear_v", "linear_1"))
        if c.num_experts > 1:
            idx, gate, _ = router(x, self.p[path + "router/w"], K, c.router_logit_cap)
            if c.renormalize_gates:
                total = np.zeros(T, F)
                for j in range(K):
                    total = total + gate[:, j]
                gate = gate / total[:, None]
        else:
            idx, gate = np.zeros((T, 1), int), np.ones((T, 1), F)
        if tr is not None:
            tr["experts"], tr["gates"] = idx, gate
        part = np.zeros((O[0].G, T, K, c.emb_size), F)
        for e in range(c.num_experts):
            t, j = np.nonzero(idx == e)
            if len(t):
                for i, y in enumerate(self.expert(x[t], W[e], V[e], O[e])):
                    part[i, t, j] = y
        ys = []
        for i in range(O[0].G):
            y = gate[:, 0, None] * part[i, :, 0]
            for j in range(1, K):
                y = y + gate[:, j, None] * part[i, :, j]
            ys.append(y)
        y = tree(ys)
        if c.dense_ffn_size:
            y = y + tree(self.expert(x, *(self.p[path + "dense/" + n + "/w"] for n in ("linear", "linear_v", "linear_1"))))
        return y

    def forward(self, tokens, cache, trace=None, all_positions=False):
        y = super().forward(tokens, cache, trace, all_positions)
        cap = self.c.final_logit_cap
        return F(cap) * B.tanh32(y * F(1.0 / cap)) if cap else y


def prompts():
    r = np.random.default_rng(6)
    return [{"name": "ids%d" % n, "ids": [1] + r.integers(4, 512, n - 1).tolist()} for n in (1, 9, 70)]


if __name__ == "__main__":
    x = np.concatenate([np.array([0, -0.0, 30, -30, 1e20, -1e20, 3e38, -3e38, 88.8, -88.8, -100, -104.5, -12.5, np.inf], F), noise(200, 6, 8)])
    json.dump({"contract": 2, "silu": {"x_bits": b32(x), "y_bits": b32(silu(x))}}, open(sys.argv[1] + "/units-silu.json", "w"))
    for c in VARIANTS:
        m = Variant(c)
        doc = {"model": c.name, "contract": 2, "rope_fnv": fnv(f32(m.cos[:64]) + f32(m.sin[:64])), "prompts": [run(m, p, [(77, 0.8, 0.9)]) for p in prompts()]}
        json.dump(doc, open(sys.argv[1] + "/" + c.name + ".json", "w"))
        print(c.name)
