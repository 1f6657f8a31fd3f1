"""What is recorded of modules whose allocations are known."""

import contextlib
import io
import logging
import unittest

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vramplan_record import draws, record
from vramplan_record.__main__ import refusal
from vramplan_record.sizes import Symbols, Unexpressed, text
from vramplan_record.values import Unanswered

try:
    from . import checkpointed, habits, modules, samples, strangers
except ImportError:
    import checkpointed
    import habits
    import modules
    import samples
    import strangers


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(48, 96), nn.Linear(96, 48)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.embed = nn.Embedding(1000, 48)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x.mean()


class Alternating(Stack):
    """layers of two kinds in turn"""

    def __init__(self):
        super().__init__(layers=6)
        for k in (1, 3, 5):
            self.blocks[k].up = nn.Sequential(self.blocks[k].up, nn.Tanh())


class Towers(nn.Module):
    """two lists of layers, of which one is stored as layers that repeat"""

    def __init__(self):
        super().__init__()
        self.long = nn.ModuleList(Block() for _ in range(4))
        self.short = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in (*self.long, *self.short):
            x = block(x)
        return x.mean()


def rows(b, t):
    return (torch.zeros(b, t, 48),)


class Keeps(nn.Module):
    """an activation that stays from one step to the next"""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        self.last = self.linear(x).detach() * 2
        return self.linear(x).sum()


def ids(b, t):
    return (torch.zeros(b, t, dtype=torch.long),)


class Turned(nn.Module):
    """a norm of what lies the other way round, and a table that is read by indices"""

    def __init__(self):
        super().__init__()
        self.norm, self.table = nn.LayerNorm(16, elementwise_affine=False), nn.Parameter(torch.zeros(7, 16))
        self.register_buffer("shift", torch.zeros(16))

    def forward(self, x):
        chosen = self.table[torch.zeros(5, dtype=torch.long, device=x.device)]
        return self.norm(x.transpose(1, 2)).sum() + (chosen + self.shift).sum()


def turned(b, t):
    return (torch.zeros(b, 16, t),)


class Recording(unittest.TestCase):
    def test_each_kind_of_layer_is_stored_once(self):
        made = record(Alternating, ids, precisions=("fp32",))
        self.assertEqual((made["layers"]["count"], made["layers"]["order"]), (6, [0, 1]))
        (other,) = made["programs"]["fp32"]["others"]
        self.assertTrue(any(line.endswith(" tanh") for line in other["layer"]))
        self.assertFalse(any(line.endswith(" tanh") for line in made["programs"]["fp32"]["layer"]))

    def test_lines_of_another_list_are_a_block(self):
        made = record(Towers, rows, precisions=("amp",))
        program = made["programs"]["amp"]
        self.assertEqual(made["layers"]["name"], "long")
        self.assertEqual([line for line in program["after"] if line[0] == "*"], ["* 0 4 short.1", "* 0 8 short.2"])
        self.assertIn("[ ~.up l", " ".join(made["blocks"][0]))

    def test_blocks_are_shared_by_programs_and_have_sizes_of_their_own(self):
        def module():
            return nn.Sequential(*(nn.Sequential(nn.Linear(24 * n, 24 * n + 24), nn.Linear(24 * n + 24, 24 * n + 24), nn.GELU()) for n in (1, 2, 3)))

        made = record(module, lambda b, t: (torch.zeros(b, 24),), precisions=("half", "fp32"), length=False)
        uses = [[line for line in p["before"] if line[0] == "*"] for p in made["programs"].values()]
        half, fp32 = ([line.split(" ") for line in u] for u in uses)
        self.assertTrue(half)
        self.assertEqual([u[:4] for u in half], [u[:4] for u in fp32])
        self.assertEqual({("bf16" in h[4], "f32" in f[4]) for h, f in zip(half, fp32)}, {(True, True)})

    def test_quantised_layers_return_what_they_are_given(self):
        opened = {p: [line for line in record(Stack, ids, precisions=(p,))["programs"][p]["layer"] if line.startswith("[ down")][0] for p in ("amp", "packed")}
        self.assertIn(" bf16 ", opened["amp"])
        self.assertIn(" f32 ", opened["packed"])

    def test_kernels_copy_what_lies_otherwise(self):
        lines = record(Turned, turned, precisions=("fp32",))["programs"]["fp32"]["before"]
        at = next(i for i, line in enumerate(lines) if line.endswith("native_layer_norm"))
        _, copy, size, *_ = lines[at - 1].split()
        self.assertEqual((lines[at - 1].split()[-1], size), ("clone", "16BT"))
        self.assertIn("F " + copy, lines[at:])

    def test_addition_by_indices_sorts_them_and_is_in_place(self):
        lines = record(Turned, turned, precisions=("fp32",))["programs"]["fp32"]["before"]
        self.assertIn("i 5 7", lines)
        self.assertFalse([line for line in lines if line.startswith("a") and line.endswith("index_put")])

    def test_buffers_follow_half_precision(self):
        r = record(Turned, turned, precisions=("amp", "half"))
        self.assertIn("shift 16 buffer bf16", r["parameters"])

    def test_other_stacks_are_named(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = Stack(3), Stack(2)

            def forward(self, ids):
                return self.one(ids) + self.two(ids)

        r = record(Two, ids, precisions=("fp32",))
        self.assertEqual((r["layers"]["name"], r["other_stacks"]), ("one.blocks", ["two.blocks"]))

    def test_layers_are_stored_once(self):
        r = record(Stack, ids, precisions=("fp32",))
        self.assertEqual(r["layers"]["count"], 3)
        self.assertEqual(r["layers"]["name"], "blocks")
        self.assertEqual(r["layers"]["parameters"][0], "blocks.0.up.weight 96x48 parameter")
        self.assertEqual(r["unfolded"], [])
        layer = r["programs"]["fp32"]["layer"]
        self.assertIn("A 0 96BT f32 addmm", layer)
        self.assertEqual(sum(line.startswith("W 1") for line in layer), 2)

    def test_autocast_copies_parameters(self):
        r = record(Stack, ids, precisions=("amp",))
        layer = r["programs"]["amp"]["layer"]
        self.assertEqual(sum(line.startswith("C ") for line in layer), 4)
        self.assertTrue(any(line.endswith("bf16 addmm") for line in layer))

    def test_what_is_kept_is_not_freed(self):
        r = record(Keeps, lambda b, t: (torch.zeros(b, t, 16),), precisions=("fp32",))
        lines = r["programs"]["fp32"]["before"]
        made = [line.split()[1] for line in lines if line.startswith("A ") and line.endswith(" mul")]
        self.assertEqual(len(made), 1)
        self.assertNotIn("F " + made[0], lines)

    def test_a_buffer_that_is_made_anew_is_an_attribute(self):
        r = record(modules.memory, modules.memory_batch, precisions=("fp32",))
        self.assertEqual([line for line in r["parameters"] if "buffer" in line], ["queue 512x64 buffer f32"])

    def test_what_weights_choose_is_divided_evenly(self):
        r = record(modules.mixture, modules.mixture_batch, precisions=("fp32",), length=64)
        self.assertIn("which of 4 is chosen depends on weights: all get equal shares", r["unexpressed"])

    def test_copies_of_layers_have_their_own_parameters(self):
        r = record(modules.transformer, modules.transformer_batch, precisions=("fp32",))
        self.assertEqual(r["layers"]["count"], 3)
        self.assertFalse([line for line in r["programs"]["fp32"]["layer"] if line.endswith(" f32 t")])

    def habit(self, name, **options):
        return record(getattr(habits, name), habits.texts, precisions=("amp",), evaluate=False, **options)

    def test_tensors_keep_their_own_types(self):
        made = record(habits.Taught, habits.texts, precisions=("amp", "half"), evaluate=False)
        lines = [*made["parameters"], *made["layers"]["parameters"]]
        self.assertIn("teacher.embed.weight 900x176 parameter =bf16 frozen", lines)
        self.assertIn("gate 900 parameter =f32", lines)
        self.assertIn("table 900x64 buffer =bf16", lines)
        self.assertIn("student.embed.weight 900x72 parameter", lines)

    def test_a_recording_says_where_it_holds(self):
        self.assertEqual(self.habit("windows")["holds"], {"batch": [2, 4099], "length": [481, 640]})
        self.assertEqual(self.habit("learned")["holds"]["length"], [2, 640])
        self.assertEqual(self.habit("windows", length=480, samples=6)["holds"], {"batch": [6, 6]})

    def test_draws_choose_what_they_do_on_average(self):
        made = self.habit("hidden")
        self.assertIn(draws.GUESS, made["unexpressed"][0])
        rows = [line for line in made["programs"]["amp"]["after"] if line.startswith("A ") and line.split()[2] == "135BT"]
        self.assertTrue(rows, "no line has three twentieths of 900 words for each token")
        torch.manual_seed(7)  # real draws
        counted = sum(int(((torch.rand(64, 1000) < 0.2) & (torch.rand(64, 1000) < 0.75)).sum()) for _ in range(4)) / 4
        self.assertLess(abs(counted / (64 * 1000 * 3 / 20) - 1), 0.01)

    def test_shares_are_what_somebody_wrote(self):
        for count, of, share in ((7560, 50399, "3/20"), (15, 101, "3/20"), (25, 101, "1/4"), (0, 9, "0"), (12599, 50399, "1/4"), (7512, 50399, "3/20")):
            self.assertEqual(str(draws.share(count, of)), share, (count, of))

    def test_questions_about_a_loss_are_answered_as_of_any_step(self):
        self.assertIn("numbers that depend on weights were taken to be finite", self.habit("careful")["unexpressed"][0])

    def test_a_loop_over_tokens_ends_with_a_word(self):
        with self.assertRaisesRegex(Unexpressed, "as a loop over them does. Record it at the sizes that are planned, with --length N"):
            self.habit("steps")

    def test_what_a_module_compiles_itself_is_named(self):
        self.assertIn("compiles itself", self.habit("fused")["unexpressed"][0])

    def test_gradients_that_a_module_asks_for_are_refused_with_the_line(self):
        said = ""
        try:
            self.habit("penalised")
        except Unexpressed as e:  # with its traceback, which assertRaises takes away
            said = refusal(e)
        self.assertRegex(said, r"this cannot be written down: .*habits.py:\d+: the module asks for gradients itself")

    def test_a_part_may_be_made_in_another_type(self):
        def build():
            model = Stack()
            model.head = nn.Linear(48, 1000, bias=False)
            model.head.weight = model.embed.weight
            model.blocks[1].to(torch.bfloat16).to(torch.float32)
            model.embed.to(torch.bfloat16)
            return model

        made = record(build, lambda b, t: (torch.zeros(b, t, dtype=torch.long),), precisions=("fp32",))
        self.assertIn("embed.weight 1000x48 parameter =bf16", made["parameters"])
        self.assertFalse([p for p in made["parameters"] if p.startswith("head.weight")])  # which is the same, as it was
        self.assertEqual([p for p in made["layers"]["parameters"] if "=" in p], [])

    def test_a_conversion_in_the_forward_is_refused(self):
        class Converts(Block):
            def forward(self, x):
                self.up.to(torch.bfloat16)
                return super().forward(x).mean()

        with self.assertRaisesRegex(Unexpressed, "Linear.weight to torch.bfloat16"):
            record(Converts, rows, precisions=("fp32",))

    def test_what_runs_between_the_modules_of_a_list_is_of_their_layers(self):
        made = self.habit("outside")
        self.assertEqual((made["layers"]["count"], made["layers"]["name"]), (5, "layers"))
        self.assertIn("a layer is all that runs from one module of layers to the next", made["unexpressed"][0])

    def test_workspaces_are_named(self):
        made = record(habits.Pictures, habits.pictures, precisions=("fp32",), length=False, evaluate=False)
        self.assertIn("convolutions: the workspaces that cuDNN chooses are in no figure", made["unexpressed"])
        self.assertIn("Fourier transforms: cuFFT's work areas are in no figure", made["unexpressed"])

    def test_a_branch_on_weights_is_refused(self):
        class Branches(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                return y.sum() if y.argmax().item() == 3 else y.mean()

        with self.assertRaises(Unanswered):
            record(lambda: Branches(4, 4), lambda b, t: (torch.zeros(b, 4),), precisions=("fp32",), length=False)

    def test_its_own_checkpointing_is_refused_by_name(self):
        class Checkpoints(nn.Linear):
            reentrant = False

            def forward(self, x):
                return checkpoint(super().forward, x, use_reentrant=self.reentrant).sum()

        for Checkpoints.reentrant in (False, True):
            with self.assertRaisesRegex(Unexpressed, r"Linear\.forward itself \(torch\.utils\.checkpoint\)"):
                record(lambda: Checkpoints(4, 4), lambda b, t: (torch.zeros(b, 4),), precisions=("fp32",), length=False)

    def test_its_own_checkpoints_of_all_layers_are_named(self):
        for build, kind in ((checkpointed.inside, "plain"), (checkpointed.reentrant_masked, "reentrant")):
            r = record(build, checkpointed.batch, precisions=("amp",))
            self.assertEqual((r["checkpoints"], r["layers"]["count"]), (kind, 4))
        r = record(Stack, ids, precisions=("fp32",))
        self.assertNotIn("checkpoints", r)

    def test_an_evaluation_has_no_graph_and_drops_nothing(self):
        class Drops(Stack):
            def forward(self, ids):
                return torch.nn.functional.dropout(super().forward(ids).reshape(1), 0.5, self.training).sum()

        r = record(Drops, ids, precisions=("fp32",))
        trained, evaluated = (sum((r[k]["fp32"][part] for part in ("before", "layer", "after")), []) for k in ("programs", "evaluations"))
        self.assertTrue(any(line.endswith("native_dropout") for line in trained))
        self.assertFalse([line for line in evaluated if line[0] in "NLa" or line.endswith("native_dropout")])
        self.assertIn("U l0", evaluated)

    def test_attention_by_its_formula_adds_the_mask_in_place(self):
        class Wide(nn.Linear):
            def forward(self, x):
                q = super().forward(x).view(x.shape[0], x.shape[1], 1, 320).transpose(1, 2)
                return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

        r = record(lambda: Wide(320, 320), lambda b, t: (torch.zeros(b, t, 320),), precisions=("half",))
        lines = [line for line in r["programs"]["half"]["before"] if line[0] == "A" and " 1BTT " in line]
        self.assertEqual([line.split()[-1] for line in lines], ["bmm", "_safe_softmax", "mul", "_to_copy"])

    def test_a_few_of_many_layers_stand_for_all(self):
        few, many = (record(lambda: Stack(n), ids, precisions=("fp32", "amp")) for n in (3, 9))
        self.assertEqual((few["layers"].pop("count"), many["layers"].pop("count")), (3, 9))
        few.pop("digest"), many.pop("digest")
        self.assertEqual(few, many)

    def test_a_module_is_made_once_for_each_type_of_weights(self):
        class Counting(Stack):
            def __init__(self):
                super().__init__(6)
                self.steps = {"run": 0}

            def forward(self, ids):
                self.steps["run"] += self.counts
                return super().forward(ids)

        for counts, times in ((0, 2), (1, 18)):  # where a run changes what the module holds, each has its own
            made = []
            Counting.counts = counts
            record(lambda: made.append(1) or Counting(), ids)
            self.assertEqual(len(made), times)

    def test_layers_that_are_missed_run_all(self):
        class Indexed(Stack):
            def forward(self, ids):
                return super().forward(ids) + self.blocks[-1].up.weight.sum() * len(self.blocks)

        r = record(lambda: Indexed(5), ids, precisions=("fp32",))
        self.assertEqual(r["layers"]["count"], 0)
        self.assertEqual(sum(line.startswith("blocks.") for line in r["parameters"]), 20)

    def test_what_frozen_weights_need_not_is_marked(self):
        layer = record(Stack, ids, precisions=("fp32",))["programs"]["fp32"]["layer"]
        gradients = [line for line in layer if line.startswith("a ") and line.endswith((" mm =0", " mm =1", " mm =2"))]
        self.assertEqual(len(gradients), 4)
        self.assertIn("[ up l x x 48BT f32 l0 0", layer)

    def test_an_input_may_want_a_gradient(self):
        class Asks(nn.Linear):
            def forward(self, x):
                x.requires_grad = True
                return super().forward(x).sum()

        r = record(lambda: Asks(4, 4), lambda b, t: (torch.zeros(b, 4),), precisions=("fp32",), length=False)
        before = r["programs"]["fp32"]["before"]
        self.assertIn("L 1 0 4B f32", before)
        self.assertTrue(any(line.startswith("N 2 1 p1,1.0,0.0 ") for line in before), before)

    def test_a_graph_beside_that_of_the_loss_keeps_what_it_saved(self):
        class Beside(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                aside = y.exp().sum()  # saves what exp made, for as long as aside is there
                return y.sum() + (aside > 0).float()

        before = record(lambda: Beside(4, 4), lambda b, t: (torch.zeros(b, 4),), precisions=("fp32",), length=False)["programs"]["fp32"]["before"]
        made = next(line for line in before if line.endswith(" exp")).split()[1]
        self.assertLess(next(i for i, line in enumerate(before) if line.endswith(" gt")), before.index("F " + made))

    def test_classes_are_marked_by_scatter_as_on_a_card(self):
        before = record(strangers.centers, strangers.centers_batch, precisions=("fp32",))["programs"]["fp32"]["before"]
        self.assertTrue([line for line in before if line.endswith(" 64BT i64 zeros")])
        self.assertFalse([line for line in before if line.endswith(" eq")])

    def test_a_custom_function_may_be_given_more_than_tensors(self):
        before = record(samples.quantised, samples.quantised_batch, precisions=("fp32",), length=False)["programs"]["fp32"]["before"]
        at = next(i for i, line in enumerate(before) if line.startswith("N 0 1 p0,p4 "))  # the weight and the scale, not the 4 bits
        sent = before[at : before.index(next(line for line in before[at + 1 :] if line.startswith("A ")))]
        self.assertEqual(sorted(line.split(" ")[2] for line in sent if line[0] in "sv"), ["0", "1"])

    def test_recurrent_layers_are_one_operation_of_cudnn(self):
        r = record(strangers.recurrent, strangers.recurrent_batch, precisions=("fp32",))
        nodes = [line.split(" ") for line in r["programs"]["fp32"]["before"] if line.startswith("N ")]
        self.assertEqual(sum(n[2] == "3" for n in nodes), 2)  # what goes on, and the last states
        self.assertIn("6 and 5 numbers for each unit", r["unexpressed"][0])

    def test_a_layer_that_one_precision_has_in_pieces_is_adaptable_in_none(self):
        r = record(samples.graph, samples.graph_batch, precisions=("fp32", "amp"), length=False)
        self.assertIn("gate", r["unadaptable"])
        for program in r["programs"].values():
            self.assertFalse([line for line in program["before"] if line.startswith("[ gate ")])

    def test_layers_that_differ_between_precisions_are_written_out(self):
        class Mixed(Stack):
            def forward(self, ids):
                x = self.embed(ids)
                for block in self.blocks:
                    x = block(x.to(torch.bfloat16) if self.embed.weight.dtype == torch.bfloat16 else x).float()
                    x = x.to(self.embed.weight.dtype)
                return x.mean() + (self.blocks[0].up.weight.sum() if self.embed.weight.dtype == torch.bfloat16 else 0)

        r = record(Mixed, ids, precisions=("fp32", "half"))
        self.assertEqual((sorted(r["programs"]), r["layers"]["count"]), (["fp32", "half"], 0))
        self.assertIn("the layers that repeat differ from one precision to another", r["unfolded"][0])

    def test_lengths_of_connectionist_classification_are_read_from_the_batch(self):
        class Heard(nn.Linear):
            def forward(self, x, words, frames, lengths):
                p = super().forward(x).float().log_softmax(-1).transpose(0, 1)
                return nn.functional.ctc_loss(p, words, frames, lengths)

        def batch(b, t):
            return torch.zeros(b, 20, 8), torch.ones(b, 6, dtype=torch.long), torch.full((b,), 20), torch.full((b,), 5)

        before = record(lambda: Heard(8, 9), batch, precisions=("fp32",), length=False, evaluate=False)["programs"]["fp32"]["before"]
        self.assertIn("220B", [line.split(" ")[2] for line in before if line.endswith(" _ctc_loss")])  # 20 frames × (2 · 5 + 1)

    def test_padding_is_written_down(self):
        def batch(b, t):
            return ids(b, t)

        batch.padded = True
        self.assertTrue(record(Stack, batch, precisions=("fp32",))["padded"])
        self.assertNotIn("padded", record(Stack, ids, precisions=("fp32",)))

    def test_a_module_made_elsewhere_is_refused(self):
        linear = nn.Linear(4, 4)
        with self.assertRaises(ValueError):
            record(lambda: linear, lambda b, t: (torch.zeros(b, 4),), precisions=("fp32",))


class Sizes(unittest.TestCase):
    def test_sizes_are_products_and_sums(self):
        s = Symbols(101, 499, 103, 503)
        s.learn((101, 499, 768), (103, 503, 768))
        s.learn((500,), (504,))
        self.assertEqual(s.size((101, 499, 768)), "768BT")
        self.assertEqual(s.size((101, 500)), "1BT+1B")
        self.assertEqual(text({(0, 0): 7}), "7")

    def test_dimensions_put_together(self):
        for at0, at1, want in ((101 * 498, 103 * 502, "1BT-1B"),      # logits[:, :-1].flatten(0, 1)
                               (101 * 12 * 500, 103 * 12 * 504, "12BT+12B"),
                               (499 * 102, 503 * 104, "1BT+1T"),
                               (101 * 101, 103 * 103, "1BB"),         # similarities of all to all
                               (2 * 499 + 1, 2 * 503 + 1, "2T+1"),
                               (2 * 101 - 1, 2 * 103 - 1, "2B-1"),
                               (499 + 1024, 503 + 1024, "1T+1024")):
            s = Symbols(101, 499, 103, 503)
            s.learn((at0,), (at1,))
            self.assertEqual(s.size((at0,)), want)

    def test_what_is_neither_is_refused(self):
        s = Symbols(101, 499, 103, 503)
        with self.assertRaises(Unexpressed):
            s.learn((17,), (1000,))


class Kernels(nn.Module):
    """layers that are alike but for the size of their kernels"""

    def __init__(self, sizes):
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, k, padding=k // 2), nn.ReLU()) for k in sizes))
        self.stem, self.idle = nn.Conv2d(4, 4, 1), nn.Linear(4, 4)

    def forward(self, x):
        return self.blocks(self.stem(x)).square().mean()


class Picky(nn.Module):
    """does more in float16, and cannot run under autocast"""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        if torch.is_autocast_enabled("cuda"):
            raise RuntimeError("not under autocast")
        y = self.up(x)
        if y.dtype == torch.float16:
            y = torch.clamp(y, -5, 5)
        return y.float().mean()


class Papers(unittest.TestCase):
    def test_layers_with_other_parameters_are_not_alike(self):
        def batch(b, t):
            return (torch.zeros(b, 4, 8, 8),)

        alike = record(lambda: Kernels((3, 3, 3)), batch, precisions=("half",), length=False, evaluate=False)
        apart = record(lambda: Kernels((3, 3, 5)), batch, precisions=("half",), length=False, evaluate=False)
        self.assertEqual([r["layers"]["count"] for r in (alike, apart)], [3, 0])
        self.assertTrue(apart["unfolded"])

    def test_a_precision_that_the_module_refuses_is_left_out(self):
        r = record(Picky, lambda b, t: (torch.zeros(b, 8),), precisions=("amp", "half"), length=False, evaluate=False)
        self.assertEqual(list(r["programs"]), ["half"])
        self.assertIn("amp is not recorded, as the module raises RuntimeError: not under autocast", r["unfolded"][-1])

    def test_float16_is_recorded_where_it_is_asked_for(self):
        def names(half):
            r = record(Picky, lambda b, t: (torch.zeros(b, 8),), precisions=("half",), length=False, evaluate=False, half=half)
            return [line.split()[-1] for line in r["programs"]["half"]["before"] if line[0] == "A"]

        self.assertEqual(names(torch.bfloat16), ["addmm", "_to_copy", "mean"])
        self.assertEqual(names(torch.float16), ["addmm", "clamp", "_to_copy", "mean"])

    def test_a_bias_is_added_in_place_to_what_lies_otherwise(self):
        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = nn.Linear(8, 8)

            def forward(self, x):
                return self.up(x.transpose(0, 1)).float().mean()

        before = record(Turned, lambda b, t: (torch.zeros(b, t, 8),), precisions=("half",), evaluate=False)["programs"]["half"]["before"]
        self.assertNotIn("add", [line.split()[-1] for line in before if line[0] == "A"])


class Talks(nn.Module):
    """logs something at a place of its forward"""

    def __init__(self, at):
        super().__init__()
        self.at, self.layer = at, nn.Linear(48, 48)

    def forward(self, x):
        if self.at == "model":
            logging.getLogger("talks").info("before the layer")
        y = self.layer(x)
        if self.at == "loss":
            logging.getLogger("talks").warning("behind the layer")
        return y if self.at == "outside" else y.float().pow(2).mean()


class BreaksTest(unittest.TestCase):
    def test_says_where_the_graph_breaks(self):
        for at in ("none", "loss", "model", "outside"):
            with self.subTest(at), contextlib.redirect_stderr(io.StringIO()):
                made = record(lambda at=at: Talks(at), lambda b, t: (torch.zeros(b, 48),), precisions=("fp32",), length=False, evaluate=False)
                self.assertEqual(made["breaks"], at)


if __name__ == "__main__":
    unittest.main()
