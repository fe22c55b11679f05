#!/usr/bin/python3
"""Unit vectors of the numeric contract for what neither the model files nor the other unit files reach.

  make_more_units.py OUT.json

Formats as in make_bit_golden.py.  edits: logits after bias, then penalties (counts are [id, in prompt, in answer]).
sample: a whole row from raw logits to the token, its log-probability and the number of survivors.  pack: a float
matrix [K][N] into int8, codes and scales per group and column.  repeated_scales: linear with fewer scale rows than
groups.  renormalised: gates of the router divided by their sum.  window: attention that sees `window` keys.
hash_router: [token, position, groups, experts per group, expert].  pruned: chosen experts [T][k] before and after.
head: logits with a final cap.  experts: weights [expert][K][N], experts [T][k] in gate order, -1 is skipped."""
import json, sys
import numpy as np
import grokd_reference as B
from make_bit_golden import b32, noise

F, D = np.float32, np.float64


def edit(x, bias=(), counts=(), repetition=1.0, frequency=0.0, presence=0.0):
    """bias, then penalties on the tokens that occur"""
    x = x.copy()
    for i, b in bias:
        x[i] = x[i] + F(b)
    for i, in_prompt, in_answer in counts:
        if in_prompt + in_answer > 0:
            x[i] = x[i] / F(repetition) if x[i] > 0 else x[i] * F(repetition)
        if in_answer > 0:
            x[i] = x[i] - F(in_answer) * F(frequency)
            x[i] = x[i] - F(presence)
    return x


BIAS = [[3, 100.0], [7, -100.0], [11, 0.1], [20, -1.7]]
COUNTS = [[0, 1, 0], [1, 0, 1], [2, 3, 2], [3, 0, 7], [5, 0, 0], [11, 2, 0], [12, 1, 9], [13, 0, 1], [20, 4, 4], [39, 1, 1]]


def edits():
    x = noise(40, 101, 6)
    x[5] = x[13] = 0
    out = []
    every = [[i, 1, 0] for i in range(40)]                 # enough of them to tell x / r from x * (1 / r)
    for a in ({"bias": BIAS}, {"counts": every, "repetition": 1.3}, {"counts": every, "repetition": 1.7}, {"counts": COUNTS, "repetition": 1.3}, {"counts": COUNTS, "repetition": 0.7},
              {"counts": COUNTS, "frequency": 0.3}, {"counts": COUNTS, "presence": -1.1},
              {"bias": BIAS, "counts": COUNTS, "repetition": 1.1, "frequency": 0.15, "presence": 0.6}):
        out.append(dict(a, x_bits=b32(x), y_bits=b32(edit(x, **a))))
    return out


def samples():
    x = noise(200, 102, 9)
    x[[17, 60]] = x.max()
    mask = (np.arange(200) % 5 != 2)
    mask[17] = False
    out = []
    settings = [{"temperature": 0.0}, {"temperature": 9e-6, "masked": True}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 0.6, "top_k": 12, "masked": True},
                {"temperature": 1.4, "top_k": 50, "top_p": 0.8, "min_p": 0.05, "masked": True}, {"temperature": 1e-5, "top_p": 0.5}]
    for n, s in enumerate(settings):
        for e in ({}, {"bias": BIAS, "counts": COUNTS, "repetition": 1.1, "frequency": 0.15, "presence": 0.6}):
            for draw in (0, 1, 77):
                y = edit(x, **e)
                m = mask if s.get("masked") else np.ones(200, bool)
                t = s["temperature"]
                f = [s.get("top_k", 0), s.get("top_p", 1.0), s.get("min_p", 0.0)]
                token = B.sample(y, t, f[1], 900 + n, draw, n, f[0], f[2], m)
                kept = 1 if t < 1e-5 else len(B.filters(y, t, *f, m)[1])
                out.append(dict(s, **e, seed=900 + n, draw=draw, choice=n, token=token, kept=kept, logprob_bits=b32(B.logprobs(x)[[token]])))
    return {"x_bits": b32(x), "mask": mask.astype(int).tolist(), "rows": out}


def pack():
    w = noise(24 * 6, 103, 2).reshape(24, 6)
    w[6:12, 1] = 0
    w[:6, 2] *= F(1e-31)
    w[12, 3] = 500
    codes, scales = np.zeros((24, 6), int), np.zeros((4, 6), F)
    for g in range(4):
        for n in range(6):
            q, s = B.quantise(w[g * 6:(g + 1) * 6, n], 127)
            codes[g * 6:(g + 1) * 6, n], scales[g, n] = q, s
    return {"K": 24, "N": 6, "G": 4, "x_bits": b32(w), "codes": codes.ravel().tolist(), "scale_bits": b32(scales)}


def int8(n, stream):
    return np.clip(np.rint(noise(n, stream, 129)), -128, 127).astype(np.int8)


def repeated_scales():
    x, w, s = noise(2 * 40, 104, 2).reshape(2, 40), int8(40 * 3, 105).reshape(40, 3), np.abs(noise(6, 106, 0.01)).reshape(2, 3)
    m = B.Matrix(w, s, 8)
    y = B.tree([m.group(x[:, g * 5:(g + 1) * 5], g) for g in range(8)])
    return {"K": 40, "N": 3, "G": 8, "scale_rows": 2, "x_bits": b32(x), "w": w.ravel().tolist(), "scale_bits": b32(s), "y_bits": b32(y)}


def renormalised():
    x, w = noise(3 * 70, 107, 2).reshape(3, 70), noise(70 * 8, 108, 0.3).reshape(70, 8)
    e, p, _ = B.router(x, w, 3)
    t = (p[:, 0] + p[:, 1]) + p[:, 2]
    return {"E": 70, "X": 8, "k": 3, "x_bits": b32(x), "w_bits": b32(w), "experts": e.tolist(), "gate_bits": b32(p / t[:, None])}


def window():
    S, d = 150, 8
    q, k, v = noise(4 * d, 109, 5).reshape(4, d), noise(S * d, 110, 2).reshape(S, d), noise(S * d, 111, 2).reshape(S, d)
    pos = np.array([0, 63, 70, 149])
    out = {"S": S, "d": d, "pos": pos.tolist(), "multiplier": 0.35, "q_bits": b32(q), "k_bits": b32(k), "v_bits": b32(v), "cases": []}
    (qc, qs), (kc, ks), (vc, vs) = B.quantise(q), B.quantise(k), B.quantise(v)
    for W in (1, 8, 64, 100):
        for cap in (0.0, 30.0):
            y = []
            for t, p in enumerate(pos):                    # shift whole blocks away, then hide what is left of the first
                first = max(0, p - W + 1)
                base = first // 64 * 64
                y.append(attend_from(qc[t:t + 1], qs[t:t + 1], kc[base:p + 1], ks[base:p + 1], vc[base:p + 1], vs[base:p + 1], first - base, cap))
            out["cases"].append({"window": W, "cap": cap, "y_bits": b32(np.concatenate(y))})
    return out


def attend_from(qc, qs, kc, ks, vc, vs, first, cap):
    """one query that sees the keys from `first` on; keys begin at a block border"""
    s = ((qc @ kc.T).astype(F) * (qs[:, None] * ks[None, :]))[0] * F(0.35)
    if cap:
        s = F(cap) * B.tanh32(s * F(1.0 / cap))
    parts = []
    for b in range(0, len(s), 64):
        j = np.arange(max(b, first), min(b + 64, len(s)))
        m = F(0) if cap else s[j].max()
        e = np.zeros(64, F)
        e[j - b] = B.exp32(s[j] if cap else s[j] - m)
        wc, sw = B.quantise(e[j - b] * vs[j])
        parts.append((m, (wc @ vc[j]).astype(F) * sw, B.lane_sum(e)))
    M = max(m for m, _, _ in parts)
    num, den = np.zeros(vc.shape[-1], F), F(0)
    for m, n, d in parts:
        f = B.exp32(m - M) if not cap else F(1)
        num, den = num + n * f, den + d * f
    return (num / den)[None]


def head():
    x, emb = noise(2 * 30, 112, 2).reshape(2, 30), noise(9 * 30, 113, 1).reshape(9, 30)
    emb[4] = 0
    (q, sx), (hq, hs) = B.quantise(x), B.head_codes(emb)
    y = (q @ hq.T).astype(F) * (sx[:, None] * hs[None]) * F(1.7)
    return {"D": 30, "V": 9, "x_bits": b32(x), "embedding_bits": b32(emb), "multiplier": 1.7, "cap": 5.0, "plain_bits": b32(y), "capped_bits": b32(F(5) * B.tanh32(y * F(1 / 5.0)))}


def experts():
    X, K, N, G, k = 4, 20, 24, 4, 3
    x = noise(4 * K, 114, 2).reshape(4, K)
    w, v, o = (int8(X * K * N, s).reshape(X, a, b) for s, a, b in ((115, K, N), (116, K, N), (117, N, K)))
    sw, sv, so = (np.abs(noise(n, s, 0.01)) for s, n in ((118, X * N), (119, X * N), (120, X * G * K)))
    sw, sv, so = sw.reshape(X, 1, N), sv.reshape(X, 1, N), so.reshape(X, G, K)
    idx = [[0, 1, 2], [3, -1, 1], [-1, 2, 0], [-1, -1, -1]]
    gate = np.abs(noise(4 * k, 121, 1)).reshape(4, k)
    ys = []
    for t, row in enumerate(idx):
        z = None
        for j, e in enumerate(row):
            if e < 0:
                continue
            u, b, m = B.Matrix(w[e], sw[e], 1), B.Matrix(v[e], sv[e], 1), B.Matrix(o[e], so[e], G)
            h = B.gelu(u.group(x[t:t + 1], 0)) * b.group(x[t:t + 1], 0)
            y = [gate[t, j] * m.group(h[:, g * 6:(g + 1) * 6], g) for g in range(G)]
            z = y if z is None else [a + c for a, c in zip(z, y)]
        ys.append(B.tree(z)[0] if z else np.zeros(K, F))
    return {"T": 4, "E": K, "F": N, "X": X, "G": G, "k": k, "x_bits": b32(x), "gate_w": w.ravel().tolist(), "up_w": v.ravel().tolist(), "down_w": o.ravel().tolist(),
            "gate_scale_bits": b32(sw), "up_scale_bits": b32(sv), "down_scale_bits": b32(so), "experts": idx, "gate_bits": b32(gate), "y_bits": b32(np.stack(ys))}


def hash_router():
    rows = []
    for groups, per in ((4, 2), (2, 4), (1, 8), (8, 1), (3, 5), (1, 1), (5, 3)):
        for token in (0, 1, 2, 37, 4095, 131071, 2 ** 24 - 1):
            for position in (0, 1, 7, 8, 63, 64, 1000, 8191, 2 ** 24 - 1):
                h = (token * 2654435761 + position * 123456789) % 2 ** 32 & 0x3F
                rows.append([token, position, groups, per, h % groups * per + ((h >> 4) + (position & 7)) % per])
    return rows


def pruned():
    ratio, T, k = 0.3, 40, 3
    gate = -np.sort(-np.abs(noise(T * k, 122, 1)).reshape(T, k), axis=1)
    gate[0, 1] = F(ratio) * gate[0, 0]                     # exactly the ratio: kept
    gate[1, 1] = np.nextafter(F(ratio) * gate[1, 0], F(0))  # a bit less: skipped
    gate[2] = 0
    before = [[(t + 3 * j) % 8 for j in range(k)] for t in range(T)]
    after = [[e if j == 0 or not gate[t, j] < F(ratio) * gate[t, 0] else -1 for j, e in enumerate(row)] for t, row in enumerate(before)]
    return {"ratio": ratio, "k": k, "gate_bits": b32(gate), "before": before, "after": after}


json.dump({"contract": 2, "edits": edits(), "sample": samples(), "pack": pack(), "repeated_scales": repeated_scales(), "renormalised": renormalised(),
           "window": window(), "head": head(), "experts": experts(), "hash_router": hash_router(), "pruned": pruned()}, open(sys.argv[1], "w"))
