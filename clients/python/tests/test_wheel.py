"""Run against the installed wheel: python -m unittest test_wheel."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest
from importlib.metadata import files, version

import vramplan

JOB: vramplan.Job = {"model": {"preset": "gpt2"}, "training": {"micro_batch": 8, "sequence_length": 1024}, "gpus": ["rtx-4090"]}


class Wheel(unittest.TestCase):
    def test_command(self) -> None:
        command = shutil.which("vramplan", path=sys.prefix + "/bin")
        assert command, "the wheel has no command"
        line = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(line, f"vramplan v{version('vramplan')}\n")
        fits = [command, "check", "--model", "gpt2", "--micro-batch", "8", "--sequence-length", "1024", "--gpu", "rtx-4090"]
        self.assertEqual(subprocess.run(fits, capture_output=True).returncode, 0)
        self.assertEqual(subprocess.run([command, "check", "--nonsense"], capture_output=True).returncode, 2)

    def test_licences_and_parts(self) -> None:
        held = {str(f) for f in files("vramplan") or []}
        linked = json.loads(pathlib.Path(vramplan.__file__).with_name("sbom.cdx.json").read_text())["components"]
        self.assertGreater(len(linked), 20)
        for part in linked:
            if part["name"] != "std":
                self.assertTrue(any(f"/licenses/licenses/{part['name']}/" in f for f in held), f"no licence of {part['name']}")
        tags = next(f for f in files("vramplan") or [] if f.name == "WHEEL").read_text()
        if sys.platform == "linux":
            self.assertIn("Tag: py3-none-manylinux_2_17_", tags)

    def test_estimate(self) -> None:
        result = vramplan.estimate(JOB)
        self.assertEqual(result["gpus"][0]["verdict"], "fits")
        self.assertEqual(sum(c["bytes"] for c in result["components"]), result["peak"]["device_bytes"])

    def test_plan(self) -> None:
        self.assertEqual(vramplan.plan(JOB, effective_batch=64)["effective_batch"], 64)

    def test_read(self) -> None:
        answer = vramplan.read({}, command="python train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --block_size 1024 --bf16 --output_dir out")
        self.assertEqual(answer["jobs"][0]["document"]["training"]["micro_batch"], 4)

    def test_catalog(self) -> None:
        self.assertIn("rtx-4090", [g["id"] for g in vramplan.gpus("4090")])

    def test_problem(self) -> None:
        with self.assertRaises(vramplan.Problem) as refused:
            vramplan.estimate({"model": {"preset": "gpt22"}, "training": {"micro_batch": -1}})
        self.assertEqual(refused.exception.status, 422)
        self.assertIn("/training/micro_batch", [e["pointer"] for e in refused.exception.errors])


if __name__ == "__main__":
    unittest.main()
