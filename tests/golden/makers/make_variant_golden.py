#!/usr/bin/python3
"""Logits of the variants of make_variants.py by an independent implementation, in float64.

  make_variant_golden.py MODELS_ROOT OUT_DIR

Run by hand with torch and transformers from PyPI; OUT_DIR/NAME.json: prompts with the logits of their last position.
Mixtral, Llama and Mistral are transformers' own.  Grok-2 is not in that library: its forward pass stands here, plain,
as sglang's model file has it (cap, then temperature; softmax over all experts, not renormalised; MLP and MoE over
the root of two)."""
import json, math, os, struct, sys
import numpy as np
import torch

torch.set_default_dtype(torch.float64)


def prompts(vocab):
    r = np.random.default_rng(5)
    return [[1] + r.integers(3, vocab, n).tolist() for n in (1, 7, 40, 100)]


def read(folder):
    """name -> float64 tensor, pieces of one name in a list"""
    out = {}
    for f in sorted(os.listdir(folder)):
        if not f.endswith(".safetensors"):
            continue
        b = open(os.path.join(folder, f), "rb").read()
        n = struct.unpack("<Q", b[:8])[0]
        for name, t in json.loads(b[8:8 + n]).items():
            if name == "__metadata__":
                continue
            lo, hi = t["data_offsets"]
            raw = b[8 + n + lo:8 + n + hi]
            x = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32) if t["dtype"] == "BF16" else np.frombuffer(raw, {"F16": "<f2", "F32": "<f4"}[t["dtype"]])
            out.setdefault(name, []).append(torch.tensor(x.astype(np.float64).reshape(t["shape"])))
    return out


def grok2(folder, ids):
    c, w = json.load(open(folder + "/config.json")), read(folder)
    one = lambda n: w[n][0]
    T, H, K, d = len(ids), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    cap = lambda x, m: m * torch.tanh(x / m)
    norm = lambda x, n: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + c["rms_norm_eps"]) * one(n)
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    pos = torch.arange(T).double()
    inv = c["rope_theta"] ** (-torch.arange(0, d, 2).double() / d)
    cos, sin = torch.cos(pos[:, None] * inv), torch.sin(pos[:, None] * inv)

    def rope(x):
        a, b = x[..., :d // 2], x[..., d // 2:]
        co, si = cos[:, None], sin[:, None]
        return torch.cat([a * co - b * si, b * co + a * si], -1)
    n = c["attn_temperature_len"]
    temp = torch.where(pos > n, torch.log2(pos.clamp(min=1)) / math.log2(n), torch.ones(T))
    h = one("model.embed_tokens.weight")[ids] * c["embedding_multiplier_scale"]
    for L in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % L
        x = norm(h, p + "pre_attn_norm.weight")
        q, k, v = (rope_(x @ one(p + "self_attn.%s_proj.weight" % a).T) for a, rope_ in
                   (("q", lambda y: rope(y.view(T, H, d))), ("k", lambda y: rope(y.view(T, K, d))), ("v", lambda y: y.view(T, K, d))))
        k, v = k.repeat_interleave(H // K, 1), v.repeat_interleave(H // K, 1)
        s = cap(torch.einsum("thd,shd->hts", q, k) * d ** -0.5, c["attn_logit_softcapping"]) * temp[None, :, None]
        s = s.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf).softmax(-1)
        o = torch.einsum("hts,shd->thd", s, v).reshape(T, H * d)
        h = h + norm(o @ one(p + "self_attn.o_proj.weight").T, p + "post_attn_norm.weight")
        x = norm(h, p + "pre_moe_norm.weight")
        mlp = (gelu(x @ one(p + "mlp.gate_proj.weight").T) * (x @ one(p + "mlp.up_proj.weight").T)) @ one(p + "mlp.down_proj.weight").T
        gates = cap(x @ one(p + "block_sparse_moe.gate.weight").T, c["router_logit_softcapping"]).softmax(-1)
        top, idx = gates.topk(c["num_experts_per_tok"], -1)
        moe = torch.zeros_like(x)
        for e in range(c["num_local_experts"]):
            w1, w3 = (torch.cat(w[p + "block_sparse_moe.experts.%d.%s.weight" % (e, a)], 0) for a in ("w1", "w3"))
            w2 = torch.cat(w[p + "block_sparse_moe.experts.%d.w2.weight" % e], 1)
            y = (gelu(x @ w1.T) * (x @ w3.T)) @ w2.T
            moe += y * (top * (idx == e)).sum(-1, keepdim=True)
        h = h + norm((mlp + moe) / math.sqrt(2), p + "post_moe_norm.weight")
    x = norm(h[-1], "model.norm.weight")
    return cap((one("lm_head.weight") @ x) * c["output_multiplier_scale"], c["final_logit_softcapping"])


def library(folder):
    from transformers import AutoModelForCausalLM
    m = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    return lambda ids: m(torch.tensor([ids])).logits[0, -1]


if __name__ == "__main__":
    for name in ("tiny-mixtral", "tiny-llama", "tiny-mistral", "tiny-linear", "tiny-grok2"):
        folder = sys.argv[1] + "/" + name
        run = library(folder) if name != "tiny-grok2" else lambda ids: grok2(folder, ids)
        with torch.no_grad():
            doc = {"prompts": [{"ids": ids, "logits": [float("%.9g" % v) for v in run(ids)]} for ids in prompts(512)]}
        json.dump(doc, open("%s/%s.json" % (sys.argv[2], name), "w"))
        print(name, max(abs(v) for v in doc["prompts"][-1]["logits"]))
