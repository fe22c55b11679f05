#!/usr/bin/python3
"""Small byte-level tokenizers and what the public libraries make of texts with them.

  make_byte_level.py OUT_DIR [TEXTS]    needs tokenizers and tiktoken from PyPI

OUT_DIR/tokenizer.json (Llama-3's form, trained here on three licence texts), OUT_DIR/tokenizer.tok.json (Grok-2's
form of the same tokens), OUT_DIR/ids.json: texts with the ids of `tokenizers` and of `tiktoken`."""
import json, random, sys
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
V1 = LLAMA3.replace("{1,3}", "")
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|separator|>"]
EXTRA = ["Ünïcödé wörds, Москва, 東京都の天気, العربية, हिन्दी, ไทย", "emoji 😀👩‍🚀🇩🇪 and 🤷🏽‍♀️", "x = [1, 22, 333, 4444]\n\tif x: return 'it''s'  # don't\r\n\r\n", "   \n  \n\n a  b   c\t\t"]


def train():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    lines = [l for n in ("GPL-3", "Apache-2.0", "MPL-2.0") for l in open("/usr/share/common-licenses/" + n, encoding="utf8")]
    t.train_from_iterator(lines + EXTRA * 50, trainer)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    return t


def texts(n):
    r = random.Random(3)
    words = open("/usr/share/common-licenses/GPL-3", encoding="utf8").read().split(" ")
    out = ["", " ", "\n", "'S it'LL we'Re \u017f 'ſ don'ſt", "a\u0085b\u00a0c\u3000d\u2028e", "123456 7 ½ Ⅷ ٣٤٥٦", "…?!\r\n\n x", "  \r\n \t ", "a'b 'c '' 'd"] + EXTRA
    while len(out) < n:
        t = ""
        for _ in range(r.randrange(1, 40)):
            k = r.randrange(9)
            t += (r.choice(words) + " " * r.randrange(3) if k < 3 else r.choice([" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "'s", "'LL", "'", "\n \n"]) if k == 3 else str(r.randrange(10 ** r.randrange(1, 9)))
                  if k == 4 else r.choice(SPECIAL + ["<|", "|>"]) if k == 5 else "".join(chr(c) for c in (r.randrange(0x110000) for _ in range(3)) if not 0xD800 <= c < 0xE000)
                  if k == 6 else "".join(chr(r.randrange(0x20, 0x3000)) for _ in range(5)) if k == 7 else r.choice(["[](){};:==", "->", "...", "aaaaaaaaaaaaaaaa" * 5]))
        out.append(t)
    return out


if __name__ == "__main__":
    t = train()
    t.save(sys.argv[1] + "/tokenizer.json", pretty=False)
    byte = {c: b for b, c in zip(list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256)) + [b for b in range(256) if not (33 <= b < 127 or 161 <= b < 173 or b >= 174)],
                                 [chr(b) for b in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))] + [chr(256 + i) for i in range(68)])}
    ranks = {bytes(byte[c] for c in p): i for p, i in t.get_vocab(with_added_tokens=False).items()}
    special = {s: 2000 + i for i, s in enumerate(SPECIAL)}
    json.dump({"regular_tokens": [{"bytes": list(b), "token": i} for b, i in sorted(ranks.items(), key=lambda x: x[1])],
               "special_tokens": [{"bytes": list(s.encode()), "token": i} for s, i in special.items()], "word_split": "V1", "vocab_size": 2100}, open(sys.argv[1] + "/tokenizer.tok.json", "w"), separators=(",", ":"))
    k = tiktoken.Encoding("grok-2", pat_str=V1, mergeable_ranks=ranks, special_tokens=special)
    rows = [{"text": x, "tokenizers": t.encode(x, add_special_tokens=False).ids, "tiktoken": k.encode(x, allowed_special="all")} for x in texts(int(sys.argv[2]) if len(sys.argv) > 2 else 300)]
    json.dump(rows, open(sys.argv[1] + "/ids.json", "w"), separators=(",", ":"))
