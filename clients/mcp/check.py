"""Asks vramplan's tools by the Python client of the Model Context Protocol, over standard input and output and over HTTP.

    python check.py PROGRAM [TRANSCRIPT]

Both transports have to give the same answers. TRANSCRIPT gets what was asked and answered, for people.
Needs the package mcp (requirements.txt). No part of the program or of its tests.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager

import mcp
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client import streamable_http

MOST_CHARACTERS = 6000

GPT2 = {
    "model": {"preset": "nanogpt/train_gpt2"},
    "training": {"micro_batch": 16, "sequence_length": 1024, "gradient_accumulation": 32, "optimizer": "adamw_torch_fused"},
    "gpus": ["rtx-4070"],
}
SMALL = {
    "model": {"nanogpt": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 1024, "vocab_size": 50304, "bias": False}},
    "training": {"micro_batch": 64, "sequence_length": 1024, "precision": "fp16", "optimizer": "adamw_torch_fused"},
    "gpus": ["rtx-4070"],
}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB. GPU 0 has a total capacity of 11.71 GiB of which 1.20 GiB is free."

# What a user asks, which tool an assistant calls for it, and what has to be in the answer.
CONVERSATION = [
    ("Will GPT-2 124M as nanoGPT trains it fit on my RTX 4070, at 16 x 1024 tokens and 32 accumulation steps?", "estimate", {"job": GPT2}, "Does not fit on rtx-4070"),
    ("And what pair of micro-batch and accumulation keeps the effective batch of 512?", "plan", {"job": GPT2, "effective_batch": 512}, "8 × 64"),
    ("A model of 6 layers, width 384, in fp16, batches of 64: does that fit?", "estimate", {"job": SMALL}, "rtx-4070"),
    ("It stopped with this message. Why?", "diagnose", {"text": OOM, "job": GPT2}, "What helps"),
    ("Why does a batch of 8 take so much less?", "compare", {"job": GPT2, "other": {**GPT2, "training": {**GPT2["training"], "micro_batch": 8}}}, "micro_batch 16 → 8"),
    ("May it start?", "check", {"job": GPT2}, "refuse"),
    ("What about: python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --block_size 512 --bf16", "read",
     {"command": "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --block_size 512 --bf16", "known": {"gpus": 1}}, "One job is read"),
    ("Which 4090s are there?", "find_gpu", {"query": "4090"}, "rtx-4090"),
    ("And which Qwen3 of 8B?", "find_model", {"query": "qwen3-8b"}, "Qwen/Qwen3-8B"),
]


@asynccontextmanager
async def over_stdio(program):
    async with stdio_client(StdioServerParameters(command=program, args=["mcp"])) as streams:
        yield streams


@asynccontextmanager
async def over_http(program):
    with tempfile.TemporaryDirectory() as folder:
        service = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--database", f"{folder}/vramplan.db"], stderr=subprocess.PIPE, text=True)
        try:
            for line in service.stderr:
                if found := re.search(r'"url":"(http://[^"]+)"', line):
                    break
            else:
                raise SystemExit("the service did not start")
            connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
            async with connect(found[1] + "/mcp") as streams:
                yield streams[:2]
        finally:
            service.terminate()
            service.stderr.close()
            service.wait(10)


def structured_of(result):
    return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)


async def converse(transport, program):
    answers = []
    async with transport(program) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = {t.name for t in (await session.list_tools()).tools}
        missing = {tool for _, tool, _, _ in CONVERSATION} - tools
        assert not missing, f"no tools {missing}"
        prompts = [p.name for p in (await session.list_prompts()).prompts]
        assert sorted(prompts) == ["explain_error", "will_it_fit"], prompts
        prompt = await session.get_prompt("will_it_fit", {"model": "gpt2", "gpu": "4090"})
        assert "estimate" in prompt.messages[0].content.text
        for question, tool, arguments, part in CONVERSATION:
            result = await session.call_tool(tool, arguments)
            text = result.content[0].text
            failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
            assert not failed and part in text, f"{tool}: {text}"
            assert structured_of(result), f"{tool} has no structured content"
            assert len(text) <= MOST_CHARACTERS
            answers.append((question, tool, text))
        wrong = await session.call_tool("estimate", {"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch_size": 4}}})
        assert "did you mean micro_batch" in wrong.content[0].text, wrong.content[0].text
    return answers


def main():
    program = sys.argv[1]
    stdio, http = (asyncio.run(converse(t, program)) for t in (over_stdio, over_http))
    assert stdio == http, "the transports give different answers"
    print(f"mcp {mcp.__version__ if hasattr(mcp, '__version__') else ''}: {len(stdio)} questions, the same answers over standard input and output and over HTTP")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as out:
            for question, tool, text in stdio:
                out.write(f"> {question}\n\n`{tool}`:\n\n```\n{text}\n```\n\n")


if __name__ == "__main__":
    main()
