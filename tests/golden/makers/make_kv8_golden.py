#!/usr/bin/python3
"""Bit-exact golden files of models with an int8 cache: make_kv8_golden.py MODEL_DIR GOLDEN.json OUT.json

Prompts are those of the float64 golden file.  "calibration": the prompt from whose int16 cache the ranges come,
the largest magnitude of each channel, 1 where there is none; "key_range_fnv" and "value_range_fnv" over their
binary32 values [layers][kv heads][key size].  The rest as in make_bit_golden.py."""
import json, os, sys
import numpy as np
import grokd_reference as B
from make_bit_golden import b32, cache_fnv, f32, fnv, pick

NEW = 16


def ranges(m, ids):
    c, T = m.new_cache(len(ids)), len(ids)
    m.prefill(ids, c)
    most = lambda codes, scales: np.abs(codes[:, :T].astype(np.float32) * scales[:, :T, :, None]).max(1)
    return tuple(np.where(r > 0, r, np.float32(1)) for r in (most(c.kc, c.ks), most(c.vc, c.vs)))


def run(m, p):
    ids, tr = p["ids"], []
    c, T = m.new_cache(len(ids) + NEW), len(ids)
    y = m.prefill(ids, c, None, tr)
    layers = [{"mid_fnv": fnv(f32(t["mid"])), "out_fnv": fnv(f32(t["h"])),
               "k_fnv": cache_fnv(c.kc[L, :T], c.ks[L, :T]), "v_fnv": cache_fnv(c.vc[L, :T], c.vs[L, :T]),
               "experts_last": t["experts"][-1].tolist(), "gates_last_bits": b32(t["gates"][-1])}
              for L, t in enumerate(tr)]
    return {"name": p["name"], "ids": ids, "logits_bits": b32(y), "greedy": m.greedy(ids, NEW), "layers": layers}


def main(mdir, golden, dst):
    cfg = B.Config.load(mdir + "/config.json")
    params = B.load_checkpoint(mdir + "/ckpt-0", cfg)
    prompts = pick(json.load(open(golden))["prompts"])
    plain = B.Model(cfg, params)
    calibration = max(prompts, key=lambda p: len(p["ids"]) * (len(p["ids"]) <= cfg.sequence_len))
    r = ranges(plain, calibration["ids"])
    m = B.Model(cfg, params, ranges=r)
    out = {"model": cfg.name, "contract": 2, "calibration": calibration["ids"], "key_range_fnv": fnv(f32(r[0])),
           "value_range_fnv": fnv(f32(r[1])), "prompts": [run(m, p) for p in prompts]}
    json.dump(out, open(dst, "w"))
    print(cfg.name, [p["name"] for p in out["prompts"]], os.path.getsize(dst), "bytes")


main(*sys.argv[1:])
