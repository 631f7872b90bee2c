"""An 8 B model sharded over two GPUs: SFT, front end, a rank killed, the run resumed, and its final checkpoint read again.

    python benchmarks/two_gpus.py OUT [--lora] [--layers 36] [--tiny]

Qwen3-8B's architecture with random weights, bfloat16, under recipes/accelerate/fsdp2.yaml. SFT's rows have 2,048 tokens. The front
end's prompts and completions of 64 tokens fill the same length, and the sum of a completion's tokens replaces its verdict, since
only the trainer is measured. Once the front end has a checkpoint, the second rank gets SIGKILL; the same command resumes with --resume.
Reports seconds per step, peak memory of each rank next to the estimate, and how far the log-probs of the final checkpoint
differ from the trainer's. Only the checkpoint to resume from is saved: each is 49 GB for full training.
`--tiny` rehearses it on CPUs by gloo. Two H100 and 100 GB of disk: six minutes for full training, four for LoRA.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from trainer_8b import Clock

from kernelwright.config import Recipe, Style, parse_recipe
from kernelwright.models import place_of
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.text import completion_ids, prompt_ids
from kernelwright.prompts import completion_text
from kernelwright.records import Candidate, Completion, Example, Task, Verdict, write_jsonl
from kernelwright.tasks import load_suite
from kernelwright.train import train
from kernelwright.train.architectures import known_architecture
from kernelwright.train.checkpoints import AtomicCheckpoints, is_sharded
from kernelwright.train.estimate import estimate
from kernelwright.train.model import load_adapted, load_tokenizer
from kernelwright.train.prompts import Ask

ROOT = Path(__file__).parents[1]
TESTS = [str(ROOT / "tests"), str(ROOT / "tests" / "train")]
"""Folders of the rehearsal's fakes."""
RANKS = 2
STYLE: Style = "compact"
RL_STEPS = 4


class Judge:
    """Rejects everything at once; the reward is `paid`."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        done: Future[Verdict] = Future()
        done.set_result(Verdict(task_id=task.id, outcome=Outcome.WRONG_VALUE, gate=Gate.FULL))
        return done


def paid(verdict: Verdict, completion: Completion) -> tuple[float, float]:
    """A reward that differs between completions."""
    return 0.0, sum(completion.token_ids or ()) % 3 / 2.0


def data(out: Path, tokens: int, answer: int) -> None:
    """Examples of `tokens`, and prompts that leave room for a completion of `answer` tokens."""
    tokenizer = load_tokenizer(place_of("default"))
    filler = "# the quick brown fox jumps over the lazy dog\n"
    each = len(tokenizer.encode(filler, add_special_tokens=False))
    examples, tasks = [], []
    for number, task in enumerate(load_suite("wright/activation") * 4):
        task = task.model_copy(update={"id": f"t/{number}"})
        prompt_tokens = len(prompt_ids(tokenizer, Ask(task).prompt(STYLE, answer)))
        padded = task.source + "\n" + filler * ((tokens - answer - prompt_tokens) // each - 1)
        tasks.append(task.model_copy(update={"source": padded}))
        answer_tokens = len(completion_ids(tokenizer, completion_text("a plan", "pass\n")))
        code = "pass\n" + filler * ((tokens - prompt_tokens - answer_tokens) // each - 1)
        examples.append(Example(task=task, plan="a plan", code=code, graph=str(number)))
    write_jsonl(out / "examples.jsonl", examples)
    write_jsonl(out / "tasks.jsonl", tasks)


def recipe_of(args: argparse.Namespace) -> Recipe:
    context, home = (1024 if args.tiny else 2048), args.out / "data"
    answer_tokens = 8 if args.tiny else 64
    if not home.is_dir():
        home.mkdir(parents=True)
        data(home, context, answer_tokens)
        sizes = {
            **(known_architecture("Qwen/Qwen3-8B") or {}),
            "architectures": ["Qwen3ForCausalLM"],
            "num_hidden_layers": args.layers,
        }
        if args.tiny:
            sizes |= {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
                      "head_dim": 32, "intermediate_size": 128, "vocab_size": 6000}  # fmt: skip
        (home / "config.json").write_text(json.dumps(sizes))
    base = str(home) if args.tiny or args.layers != 36 else "Qwen/Qwen3-8B"
    return parse_recipe(
        {
            "name": "two_gpus",
            "stages": ["sft", "frontend"],
            "model": {"init": "random", "base": base, "dtype": "bfloat16", "context": context, "gradient_checkpointing": True},
            "lora": {"rank": 16 if args.lora else 0, "alpha": 32},
            "data": {"tokenizer": place_of("default"), "examples": str(home / "examples.jsonl"),
                     "tasks": str(home / "tasks.jsonl"), "style": STYLE},
            "sft": {"steps": 4, "batch": 8, "minibatch": 2, "kinds": ["translate"], "learning_rate": 1e-5, "eval_every": 0,
                    "save_every": 99, "log_every": 1},
            "frontend": {"steps": RL_STEPS, "prompts": 2, "samples": 8, "minibatch": 2, "max_tokens": answer_tokens, "save_every": 1,
                         "learning_rate": 1e-5, "credit": "uniform", "scale": "none", "reward": f"{__file__}:paid"},
            "generation": {"rows": 8},
        }
    )  # fmt: skip


class Watch(Clock):
    """Seconds of steps, and this rank's peak memory from its first step on."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.before = peak()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def peak() -> float:
    return torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0


def log_probs(model: Any) -> torch.Tensor:
    """Log-probabilities of every next token at 64 positions."""
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.arange(5, 69, device=model.device)[None]).logits
    return logits.float().log_softmax(-1).cpu()


def rank(options: argparse.Namespace) -> None:
    """The work of each process."""
    number = int(os.environ["RANK"])
    (options.out / f"pid-{number}").write_text(str(os.getpid()))
    if options.tiny:
        sys.path[:0] = TESTS
        from sharded import split_on_the_cpu

        split_on_the_cpu()
    from kernelwright.train import grpo, sft

    fit, save = sft.fit, AtomicCheckpoints._save_checkpoint

    def watched(trainer: Any, *args: Any) -> Any:
        watch, held = Watch(), torch.cuda.memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        trainer.add_callback(watch)
        trained = fit(trainer, *args)
        assert is_sharded(trained)
        stage = getattr(trainer, "stage", "sft")
        found = {
            "rank": number,
            "stage": stage,
            "steps_s": watch.seconds,
            "peak_gb": peak(),
            "start_gb": watch.before,
            "found_gb": held,
        }
        with (options.out / f"measured-{number}.jsonl").open("a") as file:
            file.write(json.dumps(found) + "\n")
        if stage == "frontend":
            values = log_probs(trained)
            if number == 0:
                torch.save(values, options.out / "said.pt")
        return trained

    def needed(self: Any, *args: Any, **kwargs: Any) -> None:
        if self.args.save_steps == 1 and self.state.global_step == 1:
            save(self, *args, **kwargs)

    sft.fit = grpo.fit = watched
    AtomicCheckpoints._save_checkpoint = needed  # type: ignore[method-assign]
    recipe = recipe_of(options)
    if number == 0:
        stages = estimate(recipe, options.out / "run").stages
        wanted = {
            stage.stage: {
                "gb": stage.bytes / 1e9,
                "parts": {k: round(v / 1e9, 2) for k, v in stage.memory.items()},
            }
            for stage in stages
        }
        (options.out / "estimate.json").write_text(json.dumps(wanted))
    train(recipe, options.out / "run", resume=True, verifier=Judge(), quiet=True)


def launch(args: argparse.Namespace, log: Path) -> list[subprocess.Popen[str]]:
    """Start the ranks with accelerate; on CPUs, where it cannot shard models, directly."""
    command = [str(Path(__file__).resolve()), str(args.out), "--rank", "--layers", str(args.layers)]
    command += ["--lora"] * args.lora + ["--tiny"] * args.tiny
    common: dict[str, Any] = {
        "stdout": log.open("a"),
        "stderr": subprocess.STDOUT,
        "text": True,
        "start_new_session": True,
    }
    if not args.tiny:
        config = ROOT / "recipes" / "accelerate" / "fsdp2.yaml"
        by = ["-m", "accelerate.commands.launch", "--config_file", str(config), "--num_processes", str(RANKS)]
        by += ["--main_process_port", str(free_port())]
        return [subprocess.Popen([sys.executable, *by, *command], **common)]
    sys.path[:0] = TESTS
    from sharded import SETTINGS

    env = os.environ | SETTINGS | {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                                   "ACCELERATE_USE_CPU": "1"}  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, *command], env=env | {"RANK": str(n), "LOCAL_RANK": str(n)}, **common
        )
        for n in range(RANKS)
    ]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def exit_codes(
    args: argparse.Namespace, processes: list[subprocess.Popen[str]], patience: float
) -> list[int]:
    """Exit codes; kills processes still running after `patience` seconds, including a launcher's ranks."""
    until = time.monotonic() + patience
    for process in processes:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for file in args.out.glob("pid-*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()
    return [process.returncode for process in processes]


def report(args: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Print the table so far, and write the facts to a file."""
    rows = [
        json.loads(line)
        for n in range(RANKS)
        if (file := args.out / f"measured-{n}.jsonl").exists()
        for line in file.open()
    ]
    wanted = json.loads((args.out / "estimate.json").read_text())
    facts |= {"ranks": rows, "estimate": wanted}
    if torch.cuda.is_available():
        facts["device"] = torch.cuda.get_device_name()
    (args.out / "facts.json").write_text(json.dumps(facts, indent=1))
    print(
        f"{'LoRA' if args.lora else 'full'}, {args.layers} layers: "
        + json.dumps({k: v for k, v in facts.items() if k not in ("ranks", "estimate")})
    )
    print(
        f"{'stage':10}{'rank':>5}{'s a step':>10}{'first':>8}{'peak GB':>9}{'estimate':>10}{'start GB':>10}"
    )
    for row in rows:
        steps = row["steps_s"]
        print(f"{row['stage']:10}{row['rank']:5}{median(steps[1:] or steps):10.2f}{steps[0]:8.1f}{row['peak_gb']:9.2f}"
              f"{wanted[row['stage']]['gb']:10.2f}{row['start_gb']:10.2f}")  # fmt: skip
    print(json.dumps(wanted), flush=True)


def main(args: argparse.Namespace) -> int:
    args.out.mkdir(parents=True, exist_ok=True)
    recipe_of(args)
    facts: dict[str, Any] = {}
    log = args.out / "log.txt"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    processes: list[subprocess.Popen[str]] = []
    try:
        killed_and_resumed(args, log, processes, facts)
        reloaded = load_adapted(str(args.out / "run" / "stages" / "frontend" / "checkpoint"), "bfloat16")
        if torch.cuda.is_available():
            reloaded = reloaded.cuda()
        facts["log_probs_apart"] = float((log_probs(reloaded) - torch.load(args.out / "said.pt")).abs().max())
        return int(facts["log_probs_apart"] > 1e-3)
    except RuntimeError as error:
        print(f"{error}:\n" + log.read_text()[-3000:])
        return 1
    finally:
        exit_codes(args, processes, 1)
        if (args.out / "estimate.json").exists():
            report(args, facts)


def killed_and_resumed(
    args: argparse.Namespace, log: Path, processes: list[subprocess.Popen[str]], facts: dict[str, Any]
) -> None:
    """The run, in which one rank is killed. Fills `facts` as they come. Raises RuntimeError if a rank ends in another way."""
    began, curves = time.monotonic(), args.out / "run" / "curves.jsonl"
    processes += launch(args, log)
    while not list((args.out / "run" / "stages" / "frontend" / "steps").glob("checkpoint-*")):
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("ended before its time")
        time.sleep(0.05)
    facts["killed_at_s"] = time.monotonic() - began
    os.kill(int((args.out / "pid-1").read_text()), signal.SIGKILL)
    facts["exit_after_kill"] = exit_codes(args, processes, 45)
    facts["gone_at_s"] = time.monotonic() - began
    facts["steps_before"] = sum(1 for _ in curves.open())
    report(args, facts)
    processes[:] = launch(args, log)
    if any(process.wait() for process in processes):
        raise RuntimeError("the resumed run failed")
    facts["done_at_s"] = time.monotonic() - began
    lines = [json.loads(line) for line in curves.open()]
    facts["steps"] = [(line["stage"], line["step"]) for line in lines]
    facts["generate_s"] = [line["seconds"]["generate"] for line in lines if line["stage"] == "frontend"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=36)
    for flag in ("lora", "tiny", "rank"):
        parser.add_argument(f"--{flag}", action="store_true")
    args = parser.parse_args()
    sys.exit(rank(args) if args.rank else main(args))
