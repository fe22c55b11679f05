"""The float64 log-probability of a text: make_perplexity.py MODEL_DIR TEXT_FILE OUT.json [tokens]
OUT: ids (the first tokens of the text without its lines that start with ---) and the sum of the natural logarithms of the
probabilities of all but the first."""
import json
import sys

import numpy as np
import sentencepiece

import grok_reference


def log_probabilities(logits, ids):
    most = logits.max(axis=1)
    total = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return logits[np.arange(len(ids)), ids] - total


def main(model_dir, text_file, out, tokens=513):
    config = grok_reference.Config.load(model_dir + "/config.json")
    model = grok_reference.GrokModel(config, grok_reference.load_checkpoint(model_dir + "/ckpt-0", config))
    lines = [line for line in open(text_file) if not line.startswith("---")]
    ids = sentencepiece.SentencePieceProcessor(model_file=model_dir + "/tokenizer.model").encode("".join(lines))
    ids = ids[:int(tokens)]
    logits = model.forward(ids, model.new_cache(len(ids)), all_positions=True)
    total = float(log_probabilities(logits[:-1], ids[1:]).sum())
    with open(out, "w") as file:
        json.dump({"ids": ids, "log_probability": total}, file)
        file.write("\n")


main(*sys.argv[1:])
