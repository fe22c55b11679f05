"""Processes under mpirun give the bits of one rank, over HTTP.

    mesh_test.py PROGRAM CHECKPOINTS DEMO_MODEL [TestCase.test...]
"""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import kill_ranks
from group import MPIRUN, Group, answers

PROGRAM = CHECKPOINTS = DEMO = None
EIGHT_HEADS = dict(emb_size=128, num_layers=3, num_q_heads=16, num_kv_heads=8, key_size=16, ffn_size=2560,
                   scale_groups=8, name="eight-heads")
LARGE = dict(emb_size=1024, num_layers=4, num_q_heads=16, num_kv_heads=8, key_size=64, ffn_size=4096, scale_groups=8,
             name="large")


class MeshTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.started = 0

    def start(self, model, ranks, *flags, **how):
        self.started += 1
        group = Group(PROGRAM, model, ranks, self.folder / f"{self.started}.log", *flags, **how)
        self.addCleanup(group.stop)
        return group.wait_ready()

    def synthetic(self, **changes):
        """A folder with a random model: tiny-b's configuration with changes."""
        shapes, model = self.folder / "shapes", self.folder / "model"
        shapes.mkdir(exist_ok=True)
        config = json.loads((CHECKPOINTS / "tiny-b/config.json").read_text()) | changes
        (shapes / "config.json").write_text(json.dumps(config))
        tokenizer = ["--tokenizer", str(CHECKPOINTS / "tiny-b/tokenizer.model")]
        subprocess.run([PROGRAM, "synth", "--config", shapes, "--out", model, *tokenizer], check=True,
                       stderr=subprocess.DEVNULL)
        return model

    def check_bits(self, model, *ranks):
        alone = answers(self.start(model, 1))
        for number in ranks:
            with self.subTest(ranks=number):
                self.assertEqual(answers(self.start(model, number)), alone)

    def test_two_processes_give_the_bits_of_one_on_the_golden_models(self):
        for model in (CHECKPOINTS / "tiny-b", DEMO):
            self.check_bits(model, 2)

    def test_two_and_four_processes_give_the_bits_of_one_on_a_model_with_eight_key_value_heads(self):
        self.check_bits(self.synthetic(**EIGHT_HEADS), 2, 4)

    def test_ranks_whose_address_space_holds_their_slice_but_not_the_model_serve_it(self):
        base = max(self.peak_kib(self.start(CHECKPOINTS / "tiny-b", 2)))
        model, packed = self.synthetic(**LARGE), self.folder / "packed"
        subprocess.run([PROGRAM, "pack", model, "--out", packed, "--tensor-parallel", "2"], check=True,
                       capture_output=True)
        slices = [file.stat().st_size // 1024 for file in sorted(packed.rglob("rank-*.packed"))]
        self.assertEqual(len(slices), 2)
        limits = [base + size + more for size, more in zip(slices, (64 * 1024, 96 * 1024))]
        self.assertLess(max(limits), base + sum(slices))
        limited = lambda rank: ["prlimit", f"--as={limits[rank] * 1024}"]
        self.assertEqual(answers(self.start(packed, 2, wrap=limited)), answers(self.start(model, 1)))
        whole = subprocess.run([*limited(1), PROGRAM, "generate", "--model", model, "--prompt", "x"],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(whole.returncode, 1, "the whole model fits the limit, too")

    def peak_kib(self, group):
        """The largest address space that each rank has had."""
        status = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in group.rank_pids()]
        return [int(re.search(r"VmPeak:\s+(\d+)", text).group(1)) for text in status]

    def test_lost_and_stuck_ranks_are_noticed_in_time_and_end_the_group(self):
        for rank, how in [(1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGSTOP)]:
            with self.subTest(rank=rank, how=how.name):
                seen = kill_ranks.round_of(PROGRAM, DEMO, 2, rank, how, 0.3, self.folder)
                self.assertLess(seen["noticed"], kill_ranks.allowed_seconds(how))
                if rank != 0:
                    self.assertIn("error event", seen["ends"])
                if how == signal.SIGSTOP:
                    self.assertTrue(seen["red"], "/livez never turned red")

    def test_two_replicas_in_one_server_give_the_bits_of_one(self):
        self.assertEqual(answers(self.start(DEMO, 1, "--data-parallel", "2", "--force-threads")),
                         answers(self.start(DEMO, 1)))

    def test_ranks_with_different_programs_or_weights_are_refused_by_name(self):
        other = self.folder / "grokd"
        shutil.copy(PROGRAM, other)
        with open(other, "ab") as file:
            file.write(b"another build")
        weights = self.synthetic(**EIGHT_HEADS)
        same = ["--model", str(DEMO), "--prompt", "x"]
        for program, arguments, word in [(other, same, "program"), (PROGRAM, ["--model", str(weights), "--prompt", "x"],
                                                                    "configuration")]:
            ended = subprocess.run(MPIRUN + ["-np", "1", PROGRAM, "generate", *same, ":",
                                             "-np", "1", program, "generate", *arguments],
                                   capture_output=True, text=True, timeout=60)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(f"grokd: rank 1 differs from rank 0 in {word}", ended.stderr)

    def test_a_mesh_that_does_not_divide_the_heads_is_refused_with_the_possible_degrees(self):
        ended = subprocess.run(MPIRUN + ["-np", "4", PROGRAM, "generate", "--model", str(DEMO), "--prompt", "x"],
                               capture_output=True, text=True, timeout=60)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("possible: 1, 2", ended.stderr)


if __name__ == "__main__":
    PROGRAM, CHECKPOINTS, DEMO = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
