#!/usr/bin/python3
"""Writes small random models of the other architectures, each in several forms on disk.

  make_variants.py OUT_ROOT --tokenizer FILE

OUT_ROOT/NAME           as Hugging Face has it: config.json, safetensors
OUT_ROOT/NAME-xai       the same weights in the form of xAI's Grok-1 ckpt-0
OUT_ROOT/NAME-gguf      NAME.gguf (llama.cpp's), where that form knows the architecture

Every matrix is int8 times a power of two for each column and scale group, with a code of 127 or -127 in each, so
that packing loses nothing and all forms hold the same numbers; all other values have seven bits.  Values from
Philox as in make_checkpoint.py.  NumPy 1.x and nothing else."""
import argparse, dataclasses, json, math, os, shutil, struct, sys
import numpy as np
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from grok_reference import Config, bf16_bits
from make_checkpoint import dump, unit


@dataclasses.dataclass
class Variant(Config):
    model_type: str = ""
    ffn_width: int = 0
    activation: str = "silu"
    post_norms: bool = False
    renormalize_gates: bool = False
    router_logit_cap: float = 0.0
    final_logit_cap: float = 0.0
    tied_embeddings: bool = False
    dense_ffn_size: int = 0
    sliding_window: int = 0
    attn_temperature_len: int = 0
    rope_scaling: dict = None
    stored_as: str = "BF16"       # safetensors
    gguf_as: str = ""             # type of matrices in GGUF, "" = that form does not know it
    devices: int = 1              # expert matrices are cut for so many
    files: int = 1
    seed: int = 0

    @property
    def ffn(self):
        return self.ffn_width


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 48, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}
LINEAR = {"rope_type": "linear", "factor": 2.0}
PLAIN = dict(vocab_size=512, sequence_len=256, attn_output_multiplier=0.25, embedding_multiplier_scale=1.0, output_multiplier_scale=1.0, attn_logit_cap=0.0, pad_token=-1)

VARIANTS = [
    Variant(name="tiny-mixtral", model_type="mixtral", emb_size=64, num_layers=2, num_q_heads=4, num_kv_heads=2, key_size=16, num_experts=4, ffn_width=96,
            renormalize_gates=True, rope_theta=1e6, scale_groups=4, files=2, stored_as="F16", gguf_as="Q8_0", seed=21, **PLAIN),
    Variant(name="tiny-llama", model_type="llama", emb_size=96, num_layers=2, num_q_heads=8, num_kv_heads=2, key_size=16, num_experts=1, num_selected_experts=1, ffn_width=160,
            rope_theta=500000.0, rope_scaling=LLAMA3, scale_groups=8, gguf_as="F16", seed=22, **PLAIN),
    Variant(name="tiny-mistral", model_type="mistral", emb_size=64, num_layers=3, num_q_heads=4, num_kv_heads=4, key_size=16, num_experts=1, num_selected_experts=1, ffn_width=88,
            sliding_window=24, rope_scaling=YARN, tied_embeddings=True, scale_groups=4, stored_as="F32", seed=23, **PLAIN),
    Variant(name="tiny-grok2", model_type="grok-2", emb_size=64, num_layers=2, num_q_heads=8, num_kv_heads=2, key_size=16, num_experts=4, ffn_width=64, dense_ffn_size=128,
            activation="gelu", post_norms=True, router_logit_cap=30.0, final_logit_cap=50.0, attn_temperature_len=16, rope_theta=208533496.0, scale_groups=8, devices=2, gguf_as="BF16",
            seed=24, **dict(PLAIN, attn_logit_cap=30.0, embedding_multiplier_scale=8.0, output_multiplier_scale=0.5)),
    Variant(name="tiny-linear", model_type="llama", emb_size=64, num_layers=1, num_q_heads=4, num_kv_heads=1, key_size=16, num_experts=1, num_selected_experts=1, ffn_width=96,
            rope_scaling=LINEAR, rope_theta=10000.0, scale_groups=4, seed=25, **PLAIN),
]


def tensor_table(c):
    """(path, weight shape, scales shape or None), in plain string order of the modules"""
    rows = [("language_model/in_out_embed/embeddings", (c.vocab_size, c.emb_size), None)]
    if not c.tied_embeddings:
        rows.append(("language_model/out_embed/embeddings", (c.vocab_size, c.emb_size), None))
    rows.append(("language_model/rms_norm/scale", (c.emb_size,), None))
    e, f, g, x = c.emb_size, c.ffn, c.scale_groups, c.num_experts
    q, kv = c.num_q_heads * c.key_size, c.num_kv_heads * c.key_size
    for i in sorted(range(c.num_layers), key=str):
        p, m = "transformer/decoder_layer_%d/" % i, []
        if c.dense_ffn_size:
            d = c.dense_ffn_size
            m += [("dense/linear/w", (e, d), (1, d)), ("dense/linear_1/w", (d, e), (g, e)), ("dense/linear_v/w", (e, d), (1, d))]
        m += [("moe/linear/w", (x, e, f), (x, 1, f)), ("moe/linear_1/w", (x, f, e), (x, g, e)), ("moe/linear_v/w", (x, e, f), (x, 1, f))]
        m += [("multi_head_attention/key/w", (e, kv), (1, kv)), ("multi_head_attention/linear/w", (q, e), (g, e)),
              ("multi_head_attention/query/w", (e, q), (1, q)), ("multi_head_attention/value/w", (e, kv), (1, kv))]
        m += [("rms_norm%s/scale" % n, (e,), None) for n in ("", "_1", "_2", "_3") if c.post_norms or n in ("", "_2")]
        if x > 1:
            m.append(("router/w", (e, x), None))
        rows += [(p + name, w, s) for name, w, s in m]
    return rows


GAIN = {"query": 2.0, "key": 2.0}


def seven_bits(z, unit_):
    return (np.clip(np.rint(z), -127, 127) * unit_).astype(np.float32)


def value(c, n, path, wshape, sshape):
    z = unit(c.seed, n, 0, int(np.prod(wshape))).reshape(wshape)
    if path.endswith("/embeddings"):
        return seven_bits(z * 40, 2.0 ** -6)
    if path.endswith("/scale"):
        return seven_bits(64 * (1 + 0.2 * z), 2.0 ** -6 * (0.5 if "rms_norm_1" in path or "rms_norm_3" in path else 1))
    if path.endswith("/router/w"):
        return seven_bits(z * 24, 2.0 ** -6)
    k, n_out, g = wshape[-2], wshape[-1], sshape[-2]
    q = np.clip(np.rint(z * 36), -127, 127).reshape(-1, g, k // g, n_out)
    q[:, :, 0, :] = np.where(q[:, :, 0, :] < 0, -127, 127)
    step = 2.0 ** np.round(np.log2(GAIN.get(path.split("/")[-2], 1.0) / (36 * math.sqrt(k))))
    s = np.where(unit(c.seed, n, 1, int(np.prod(sshape))) < 0, step, step / 2).astype(np.float32).reshape(sshape)
    return q.reshape(wshape).astype(np.int8), s


def values(c):
    return {path: value(c, n, path, w, s) for n, (path, w, s) in enumerate(tensor_table(c))}


def floats(v):
    """[.., in, out] as float32"""
    if not isinstance(v, tuple):
        return v
    w, s = v
    return w.astype(np.float32) * np.repeat(s, w.shape[-2] // s.shape[-2], axis=-2)


# ------------------------------------------------------------------ xAI's form

def grokd_config(c):
    d = {"format": "grokd-config-1", "tokenizer": "tokenizer.model", "checkpoint": "ckpt-0", "ffn_size": c.ffn}
    own = ("ffn_width", "stored_as", "gguf_as", "devices", "files", "seed", "widening_factor")
    d.update({k: v for k, v in dataclasses.asdict(c).items() if k not in own and v is not None})
    d["unk_token"] = -1
    d["add_bos"] = c.model_type != "grok-2"
    return d


def write_xai(c, vals, out):
    os.makedirs(out + "/ckpt-0", exist_ok=True)
    for n, (path, _, _) in enumerate(tensor_table(c)):
        v = vals[path]
        dump((v[0], bf16_bits(v[1])) if isinstance(v, tuple) else v, out + "/ckpt-0/tensor%05d_000" % n)
    json.dump(grokd_config(c), open(out + "/config.json", "w"), indent=1)


# ------------------------------------------------------------------ safetensors

def hf_names(c):
    """path after the layer -> name; {} is the layer, # the expert"""
    n = {"in_out_embed/embeddings": "model.embed_tokens.weight", "out_embed/embeddings": "lm_head.weight", "rms_norm/scale": "model.norm.weight"}
    lay = {"multi_head_attention/%s/w" % a: "model.layers.{}.self_attn.%s_proj.weight" % b for a, b in (("query", "q"), ("key", "k"), ("value", "v"), ("linear", "o"))}
    lay["router/w"] = "model.layers.{}.block_sparse_moe.gate.weight"
    moe = c.num_experts > 1
    for a, b, d in (("linear", "w1", "gate"), ("linear_v", "w3", "up"), ("linear_1", "w2", "down")):
        lay["moe/%s/w" % a] = "model.layers.{}.block_sparse_moe.experts.#.%s.weight" % b if moe else "model.layers.{}.mlp.%s_proj.weight" % d
        lay["dense/%s/w" % a] = "model.layers.{}.mlp.%s_proj.weight" % d
    norms = ("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm") if c.post_norms else ("input_layernorm", "", "post_attention_layernorm", "")
    for k, name in zip(("", "_1", "_2", "_3"), norms):
        lay["rms_norm%s/scale" % k] = "model.layers.{}.%s.weight" % name
    return n, lay


def flat(c, vals):
    """(name, float32 array, path): matrices [out, in], one an expert"""
    top, lay = hf_names(c)
    for path, v in vals.items():
        x = floats(v)
        if path.startswith("language_model/"):
            yield top[path[len("language_model/"):]], x, path
            continue
        _, layer, rest = path.split("/", 2)
        name = lay[rest].replace("{}", layer.rsplit("_", 1)[1])
        if x.ndim == 3:
            for e in range(len(x)):
                yield name.replace("#", str(e)), x[e].T, path
        else:
            yield name, x.T if x.ndim == 2 else x, path


def encode(x, kind):
    x = np.ascontiguousarray(x, np.float32)
    if kind == "F32":
        return x.tobytes()
    if kind == "F16":
        assert np.array_equal(x.astype(np.float16).astype(np.float32), x)
        return x.astype(np.float16).tobytes()
    bits = bf16_bits(x)
    assert np.array_equal((bits.astype(np.uint32) << 16).view(np.float32).reshape(x.shape), x)
    return bits.astype("<u2").tobytes()


def write_safetensors(path, tensors, kind):
    header, data, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, x in tensors:
        b = encode(x, kind)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [at, at + len(b)]}
        data.append(b)
        at += len(b)
    h = json.dumps(header).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + b"".join(data))


def hf_config(c):
    arch = {"mixtral": "MixtralForCausalLM", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "grok-2": "Grok1ForCausalLM"}[c.model_type]
    d = dict(architectures=[arch], model_type="git" if c.model_type == "grok-2" else c.model_type, vocab_size=c.vocab_size, hidden_size=c.emb_size, intermediate_size=c.dense_ffn_size or c.ffn,
             num_hidden_layers=c.num_layers, num_attention_heads=c.num_q_heads, num_key_value_heads=c.num_kv_heads, head_dim=c.key_size, max_position_embeddings=c.sequence_len,
             rms_norm_eps=c.rms_norm_eps, rope_theta=c.rope_theta, tie_word_embeddings=c.tied_embeddings, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16")
    if c.num_experts > 1:
        d.update(num_local_experts=c.num_experts, num_experts_per_tok=c.num_selected_experts)
    if c.model_type == "grok-2":
        d.update(embedding_multiplier_scale=c.embedding_multiplier_scale, output_multiplier_scale=c.output_multiplier_scale, attn_logit_softcapping=c.attn_logit_cap,
                 router_logit_softcapping=c.router_logit_cap, final_logit_softcapping=c.final_logit_cap, attn_temperature_len=c.attn_temperature_len, moe_intermediate_size=c.ffn,
                 residual_moe=True, rope_type="original", sliding_window_size=-1)
    else:
        d.update(hidden_act="silu", sliding_window=c.sliding_window or None, rope_scaling=c.rope_scaling)
    return d


CHAT = {"mixtral": "{{ bos_token }}[INST] {{ content }} [/INST]{{ answer }}{{ eos_token }}", "mistral": "[INST] ", "llama": "[INST] <<SYS>> <</SYS>>", "grok-2": ""}


def write_hf(c, vals, out):
    os.makedirs(out, exist_ok=True)
    json.dump(hf_config(c), open(out + "/config.json", "w"), indent=1)
    json.dump({"add_bos_token": c.model_type != "grok-2", "chat_template": CHAT[c.model_type]}, open(out + "/tokenizer_config.json", "w"))
    all_ = list(flat(c, vals))
    if c.devices > 1:
        cut = [t for t in all_ if "/moe/" in t[2]]
        write_safetensors(out + "/model-TP-common.safetensors", [(n, x) for n, x, p in all_ if "/moe/" not in p], c.stored_as)
        for d in range(c.devices):
            part = [(n, np.split(x, c.devices, axis=1 if "linear_1" in p else 0)[d]) for n, x, p in cut]
            write_safetensors(out + "/model-TP-%03d.safetensors" % d, part, c.stored_as)
    elif c.files > 1:
        index = {}
        for f in range(c.files):
            name = "model-%05d-of-%05d.safetensors" % (f + 1, c.files)
            part = [(n, x) for n, x, _ in all_[f::c.files]]
            write_safetensors(out + "/" + name, part, c.stored_as)
            index.update({n: name for n, _ in part})
        json.dump({"metadata": {}, "weight_map": index}, open(out + "/model.safetensors.index.json", "w"))
    else:
        write_safetensors(out + "/model.safetensors", [(n, x) for n, x, _ in all_], c.stored_as)


# ------------------------------------------------------------------ GGUF

GGUF_TYPE = {"F32": 0, "F16": 1, "Q8_0": 8, "BF16": 30}
GGUF_NAMES = {"in_out_embed/embeddings": "token_embd", "out_embed/embeddings": "output", "rms_norm/scale": "output_norm"}
GGUF_LAYER = {"multi_head_attention/query/w": "attn_q", "multi_head_attention/key/w": "attn_k", "multi_head_attention/value/w": "attn_v", "multi_head_attention/linear/w": "attn_output",
              "router/w": "ffn_gate_inp", "moe/linear/w": "ffn_gate_exps", "moe/linear_v/w": "ffn_up_exps", "moe/linear_1/w": "ffn_down_exps",
              "dense/linear/w": "ffn_gate", "dense/linear_v/w": "ffn_up", "dense/linear_1/w": "ffn_down",
              "rms_norm/scale": "attn_norm", "rms_norm_1/scale": "attn_output_norm", "rms_norm_2/scale": "ffn_norm", "rms_norm_3/scale": "layer_output_norm"}


def paired(x, heads):
    """rows of a head from (i, i + d/2) pairs to neighbours, as llama.cpp's converter stores llama's query and key"""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def q8_0(codes, scales):
    """[out, in] codes with one scale an entry, in blocks of 32 with the scale of each"""
    c, s = codes.reshape(-1, 32), scales.reshape(-1, 32)
    assert np.all(s == s[:, :1])
    rec = np.zeros(len(c), dtype=[("d", "<f2"), ("q", "i1", 32)])
    rec["d"], rec["q"] = s[:, 0], c
    return rec.tobytes()


def gguf_value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<IQ", 8, len(v.encode())) + v.encode()
    body = b"".join(gguf_value(x)[4:] for x in v)
    return struct.pack("<IIQ", 9, struct.unpack("<I", gguf_value(v[0])[:4])[0], len(v)) + body


def gguf_metadata(c):
    a = "grok" if c.model_type == "grok-2" else "llama"
    m = {"general.architecture": a, "general.name": c.name, "general.alignment": 32}
    m.update({a + "." + k: v for k, v in {
        "block_count": c.num_layers, "context_length": c.sequence_len, "embedding_length": c.emb_size, "feed_forward_length": c.dense_ffn_size or c.ffn,
        "attention.head_count": c.num_q_heads, "attention.head_count_kv": c.num_kv_heads, "attention.layer_norm_rms_epsilon": c.rms_norm_eps,
        "attention.key_length": c.key_size, "attention.value_length": c.key_size, "rope.dimension_count": c.key_size, "rope.freq_base": c.rope_theta, "vocab_size": c.vocab_size}.items()})
    if c.num_experts > 1:
        m.update({a + ".expert_count": c.num_experts, a + ".expert_used_count": c.num_selected_experts})
    if a == "grok":
        m.update({a + ".expert_feed_forward_length": c.ffn, a + ".embedding_scale": c.embedding_multiplier_scale, a + ".logit_scale": c.output_multiplier_scale,
                  a + ".attention.output_scale": c.attn_output_multiplier, a + ".attn_logit_softcapping": c.attn_logit_cap, a + ".router_logit_softcapping": c.router_logit_cap,
                  a + ".final_logit_softcapping": c.final_logit_cap, a + ".attention.temperature_length": c.attn_temperature_len})
    m.update({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>"], "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
              "tokenizer.ggml.add_bos_token": c.model_type != "grok-2"})
    return m


def gguf_tensors(c, vals):
    for path, v in vals.items():
        if path.startswith("language_model/"):
            yield GGUF_NAMES[path[len("language_model/"):]] + ".weight", v, "F32", path
            continue
        _, layer, rest = path.split("/", 2)
        name = GGUF_LAYER[rest]
        if c.num_experts == 1:
            name = name.replace("_exps", "")
        yield "blk.%s.%s.weight" % (layer.rsplit("_", 1)[1], name), v, c.gguf_as if isinstance(v, tuple) else "F32", path


def gguf_bytes(c, v, kind, path):
    """(shape as rows, bytes)"""
    x = floats(v)
    if path.endswith("/w"):
        x = x.swapaxes(-1, -2)
    if x.ndim == 3 and c.num_experts == 1:
        x = x[0]
    heads = {"query": c.num_q_heads, "key": c.num_kv_heads}.get(path.split("/")[-2]) if c.model_type != "grok-2" else None
    if kind != "Q8_0":
        x = paired(x, heads) if heads else x
        return x.shape, encode(x, kind)
    codes, s = v
    full = np.repeat(s, codes.shape[-2] // s.shape[-2], axis=-2).swapaxes(-1, -2)
    codes = codes.swapaxes(-1, -2)
    if heads:
        codes, full = paired(codes, heads), paired(full, heads)
    blocks = np.all(full.reshape(-1, 32) == full.reshape(-1, 32)[:, :1])
    return (x.shape, q8_0(np.ascontiguousarray(codes), np.ascontiguousarray(full))) if blocks else (x.shape, None)


def write_gguf(c, vals, out):
    os.makedirs(out, exist_ok=True)
    infos, data, at, count = b"", [], 0, 0
    for name, v, kind, path in gguf_tensors(c, vals):
        shape, body = gguf_bytes(c, v, kind, path)
        if body is None:                       # scale groups shorter than Q8_0's blocks
            kind = "F16"
            shape, body = gguf_bytes(c, v, kind, path)
        pad = -len(body) % 32
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape[::-1]) + struct.pack("<IQ", GGUF_TYPE[kind], at)
        data += [body, b"\0" * pad]
        at += len(body) + pad
        count += 1
    meta = gguf_metadata(c)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(meta))
    for k, v in meta.items():
        head += struct.pack("<Q", len(k)) + k.encode() + gguf_value(v)
    head += infos
    head += b"\0" * (-len(head) % 32)
    if c.rope_scaling or np.float32(c.rope_theta) != c.rope_theta:   # which GGUF has no room for
        json.dump(hf_config(c), open(out + "/config.json", "w"))
    with open(out + "/" + c.name + ".gguf", "wb") as f:
        f.write(head + b"".join(data))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--tokenizer", required=True)
    a = ap.parse_args()
    for c in VARIANTS:
        vals = values(c)
        dirs = [a.out + "/" + c.name, a.out + "/" + c.name + "-xai"]
        write_hf(c, vals, dirs[0])
        write_xai(c, vals, dirs[1])
        if c.gguf_as:
            dirs.append(a.out + "/" + c.name + "-gguf")
            write_gguf(c, vals, dirs[2])
        for d in dirs:
            shutil.copyfile(a.tokenizer, d + "/tokenizer.model")
