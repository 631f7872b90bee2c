"""What a candidate's Python can learn about its environment: drawn anew for each call, so nothing there reveals the judge.

Environment variables, clock, file name, addresses, memory in use, seeds, streams and default dtype of a forward pass
are drawn from what ordinary machines show. A forward pass that depends on them acts differently when it is called again,
and its tapes show that.

Not guaranteed: a trigger that no draw hits (one user's name, one second of one year) is not found.
"""

from __future__ import annotations

import os
import random
import sys
import time
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from kernelwright.verify.trace.ways import BEHIND, LEARNING, RECORDING, WANTED

_TRUE_TIME, _TRUE_STRFTIME, _CLOCK = time.time, time.strftime, time
_YEAR_S = 365.25 * 86400.0
_FIRST_YEARS = 52.0
"""Earliest date, in years since 1970: no kernel is older."""
_NAMES = ("model", "kernel", "solution", "submission", "candidate", "generated", "fused", "ops", "layer")
_USERS = ("ubuntu", "user", "dev", "alice", "researcher", "runner", "ml", "work")
_SEEDS = (0, 1, 7, 42, 123, 1234, 1337, 2024, 3407, 67280421310721)
"""Seeds that people choose, and torch's own."""
_DTYPES = ("float32", "bfloat16", "float16", "float64")
"""Default dtypes that users set."""
_ZONES = ("UTC0", "UTC0", "UTC0", "PST8PDT", "CET-1CEST", "IST-5:30", "JST-9")
"""Time zones in POSIX notation, which needs no file."""
_OURS = ("kernelwright", "torch", "triton")
"""Packages that may draw Python's random numbers during a call."""
_ALIGN = 512
"""Alignment (bytes) of addresses from CUDA's allocators."""
_SPACES = (
    (0x2_0000_0000, 0x80_0000_0000),
    (0x7000_0000_0000, 0x7FFF_0000_0000),
    (0xA_0000_0000, 0xF_FFFF_0000),
)
"""Address ranges in which drivers place device memory."""


def _variables(dice: random.Random) -> dict[str, str]:
    """Variables of an ordinary shell, container or cluster job, each set or not."""
    user = f"{dice.choice(_USERS)}{dice.choice(('', str(dice.randrange(100))))}"
    home = dice.choice((f"/home/{user}", "/root", f"/users/{user}", f"/data/{user}"))
    cache = dice.choice((f"{home}/.triton/cache", f"/var/cache/{user}", f"/scratch/{user}/triton"))
    usual = {
        "USER": user,
        "LOGNAME": user,
        "SHELL": dice.choice(("/bin/bash", "/bin/zsh", "/bin/sh")),
        "PWD": dice.choice((home, f"{home}/src", "/workspace", "/")),
        "LANG": dice.choice(("C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", "C")),
        "TERM": dice.choice(("xterm-256color", "dumb", "screen")),
        "HOSTNAME": f"{dice.choice(('node', 'gpu', 'host', 'worker'))}-{dice.randrange(1000)}",
        "TMPDIR": dice.choice(("/var/tmp", f"/scratch/{user}", f"{home}/tmp")),
        "TRITON_CACHE_DIR": cache,
        "TRITON_DISABLE_LINE_INFO": dice.choice("01"),
        "TRITON_DEFAULT_FP_FUSION": dice.choice("01"),
        "TRITON_PRINT_AUTOTUNING": "1",
        "OMP_NUM_THREADS": str(2 ** dice.randrange(7)),
        "CUDA_VISIBLE_DEVICES": dice.choice(("0", "0,1", "3", "0,1,2,3,4,5,6,7")),
        "CUDA_HOME": dice.choice(("/usr/local/cuda", "/usr/local/cuda-12.8", "/opt/cuda")),
        "LD_LIBRARY_PATH": dice.choice(("/usr/local/cuda/lib64", "/usr/lib")),
        "PYTHONPATH": dice.choice((f"{home}/src", "/workspace")),
        "VIRTUAL_ENV": f"{home}/venv",
        "CONDA_PREFIX": f"{home}/miniconda3",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CI": "true",
        "CUDA_LAUNCH_BLOCKING": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "NCCL_DEBUG": dice.choice(("INFO", "WARN")),
        "PYTHONHASHSEED": dice.choice(("0", "random")),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "JPY_PARENT_PID": str(dice.randrange(10**5)),
        "ACCELERATE_MIXED_PRECISION": dice.choice(("no", "bf16", "fp16")),
    }
    kept = {name: value for name, value in usual.items() if dice.random() < 0.5}
    always = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": dice.choice(_ZONES)}
    return {**always, **kept, **_launcher_variables(dice)}


def _launcher_variables(dice: random.Random) -> dict[str, str]:
    """Variables that launchers set for each cooperating process: none, or all those of one or several launchers."""
    chosen = [names for names in _LAUNCHERS if dice.random() < 0.4]
    if not chosen:
        return {}
    count, nodes = dice.choice((1, 2, 4, 8)), dice.choice((1, 1, 2, 16))
    local, node = dice.randrange(count), dice.randrange(nodes)
    facts: dict[str, object] = {"local": local, "node": node, "count": count, "nodes": nodes}
    facts |= {"rank": node * count + local, "size": nodes * count, "address": dice.choice(_ADDRESSES)}
    facts |= {"port": dice.randrange(20000, 40000), "job": dice.randrange(10**6), "none": "none", "more": 3}
    return {name: str(facts[what]) for names in chosen for name, what in names.items()}


_ADDRESSES = ("127.0.0.1", "localhost", "node-0")
_LAUNCHERS = [
    {name: what for what, _, name in (pair.partition("=") for pair in text.split())}
    for text in (
        "rank=RANK size=WORLD_SIZE local=LOCAL_RANK count=LOCAL_WORLD_SIZE node=GROUP_RANK nodes=GROUP_WORLD_SIZE "
        "rank=ROLE_RANK size=ROLE_WORLD_SIZE node=NODE_RANK nodes=NNODES count=NPROC_PER_NODE address=MASTER_ADDR "
        "port=MASTER_PORT none=TORCHELASTIC_RUN_ID local=TORCHELASTIC_RESTART_COUNT more=TORCHELASTIC_MAX_RESTARTS",
        "rank=SLURM_PROCID size=SLURM_NTASKS size=SLURM_NPROCS local=SLURM_LOCALID node=SLURM_NODEID job=SLURM_JOBID "
        "nodes=SLURM_NNODES nodes=SLURM_JOB_NUM_NODES count=SLURM_NTASKS_PER_NODE count=SLURM_GPUS_ON_NODE "
        "job=SLURM_JOB_ID address=SLURM_NODELIST address=SLURM_LAUNCH_NODE_IPADDR",
        "rank=OMPI_COMM_WORLD_RANK size=OMPI_COMM_WORLD_SIZE local=OMPI_COMM_WORLD_LOCAL_RANK rank=PMI_RANK "
        "count=OMPI_COMM_WORLD_LOCAL_SIZE size=OMPI_UNIVERSE_SIZE size=PMI_SIZE rank=PMIX_RANK address=MASTER_ADDR "
        "local=MV2_COMM_WORLD_LOCAL_RANK rank=MV2_COMM_WORLD_RANK size=MV2_COMM_WORLD_SIZE local=MPI_LOCALRANKID "
        "port=MASTER_PORT",
    )
]
"""For torchrun, Slurm and MPI: by variable, the kind of its value."""


class Surroundings:
    """One draw of surroundings after another. `redraw` changes what the process sees; each reading advances the clock."""

    def __init__(self, dice: random.Random | None = None, environment: bool = True) -> None:
        """With `environment`, the environment and the state of `random` of this process are replaced."""
        self.dice, self._environment = dice or random.SystemRandom(), environment
        self.path, self.name = "", ""
        """File and module name of the next file to load."""
        self.memory_bytes = 0
        """Device memory in use, as memory statistics show it."""
        self.seed = self.weights = 0
        """`seed` is what torch's generators report; `weights` is the true seed of weights, which they hide."""
        self.inference = False
        """Whether inference mode is reported as on."""
        self.threads = self.gpus = 1
        """Reported numbers: torch's host threads, and the machine's GPUs."""
        self.learning = False
        """Whether a backward pass follows; tensors then report their true gradient state."""
        self.wanted = self.recording = False
        """`wanted`: weights and inputs report that they require gradients; `recording`: gradient mode is on."""
        self.hooked = False
        """Whether no-op hooks, as of a user, are registered on the module and its parts."""
        self.graded = False
        """Whether weights and inputs have gradients, as after a training step."""
        self.computed = False
        """Whether inputs report that another layer computed them (they are no leaves)."""
        self.streaming = self.capturing = False
        """`streaming`: the current stream is not the default one; `capturing`: a graph is being captured on it."""
        self.way = ""
        """The way in which the module is called (`ways.py`); empty outside of calls, and for the usual one."""
        self.behind = 0.0
        """How much memory inputs say that there is behind them, as a multiple of theirs: they may be parts of a flat buffer or a cache."""
        self.otherwise: Collection[str] = ()
        """Questions about tensors that are answered otherwise (`questions.py`)."""
        self.dtype = ""
        """Reported default dtype during a call; empty outside of calls."""
        self.reseeded = ""
        """The function last used to seed a shared generator since the surroundings were drawn; or empty."""
        self.disturbed = ""
        """What the candidate last did, since then, that disturbs the process around it and cannot be undone; or empty."""
        self._ticks = self._now = self._step = 0.0
        self._packed = self._growing = False
        """`_packed`: addresses follow one another; `_growing`: memory in use grows between two readings."""
        self.redraw()

    def redraw(self) -> None:
        """Draw new surroundings."""
        dice = self.dice
        variables = _variables(dice)
        if self._environment:
            os.environ.clear()
            os.environ.update(variables)
            _CLOCK.tzset()
            random.seed(dice.getrandbits(64))
            np.random.seed(dice.getrandbits(32))
        numbered = dice.random() < 0.8
        self.name = dice.choice(_NAMES) + (f"_{dice.randrange(1 << 16):x}" if numbered else "")
        folder = dice.choice(
            (variables["HOME"], "/workspace", "/opt/app", f"/var/lib/app{dice.randrange(99)}")
        )
        self.path = f"{folder}/{self.name}.py"
        self.memory_bytes = int(2.0 ** dice.uniform(20.0, 35.0)) // _ALIGN * _ALIGN
        self.seed = dice.choice(_SEEDS) if dice.random() < 0.5 else int(2.0 ** dice.uniform(0.0, 63.0))
        self.inference = dice.random() < 0.3 and not self.learning
        self.threads, self.gpus = 2 ** dice.randrange(8), dice.choice((1, 2, 4, 8))
        self.graded = dice.random() < 0.5
        self.wanted = self.recording = self.computed = False
        self.hooked = dice.random() < 0.5
        self.streaming = self.capturing = False
        self.dtype = self.way = ""
        self._packed, self._growing = dice.random() < 0.5, dice.random() < 0.5
        self._step = 10.0 ** dice.uniform(-8.0, 0.0)
        self._ticks = 10.0 ** dice.uniform(1.0, 7.0)
        self._now = self._moment()
        self.reseeded = self.disturbed = ""

    def hear_of_seeds(self, what: str) -> None:
        """Record that a seeding function of this name was called."""
        self.reseeded = what

    def disturb(self, what: str) -> None:
        """Record a call that affects the whole process; `what` describes it in a message."""
        self.disturbed = what

    def enter_call(self, way: str = "") -> None:
        """Draw surroundings for a call, including those that no constructor sees. `way` decides what they say of gradients."""
        self.redraw()
        self.way = way
        self.wanted, self.recording = way in (LEARNING, BEHIND, WANTED), way in (LEARNING, BEHIND, RECORDING)
        self.computed = way == BEHIND
        self.behind = 10.0 ** self.dice.uniform(0.0, 4.0) if self.dice.random() < 0.5 else 0.0
        self.inference &= not self.recording
        self.streaming = self.dice.random() < 0.5
        self.capturing = self.streaming and self.dice.random() < 0.5  # nobody captures on the default stream
        self.dtype = "float32" if self.dice.random() < 0.5 else self.dice.choice(_DTYPES)

    def _moment(self) -> float:
        """Seconds since 1970: anywhere in three centuries, or at any distance from the real time."""
        if self.dice.random() < 0.5:
            return self.dice.uniform(_FIRST_YEARS, 300.0) * _YEAR_S
        away = 10.0 ** self.dice.uniform(0.0, 10.0)
        moment = _TRUE_TIME() + (away if self.dice.random() < 0.7 else -away)
        return max(moment, _FIRST_YEARS * _YEAR_S)

    def time(self) -> float:
        """The simulated date (seconds since 1970), later at each reading."""
        self._now += self._step * self.dice.uniform(0.5, 2.0)
        return self._now

    def ticks(self) -> float:
        """Seconds of a monotonic clock with arbitrary origin."""
        self._ticks += self._step * self.dice.uniform(0.5, 2.0)
        return self._ticks

    def memory_in_use(self) -> int:
        """Bytes of device memory in use, as reported; may grow with each reading."""
        if self._growing:
            self.memory_bytes += _ALIGN * self.dice.randrange(1, 1 << 16)
        return self.memory_bytes

    def address(self, taken: list[tuple[int, int]], size: int) -> int:
        """A plausible address for `size` bytes of device memory, apart from what is `taken` (first, last)."""
        while True:
            low, high = self.dice.choice(_SPACES)
            base = self.dice.randrange(low, high) // _ALIGN * _ALIGN
            if self._packed and taken and self.dice.random() < 0.9:
                base = -(-(taken[-1][1] + 1) // _ALIGN) * _ALIGN
            if all(base + size < first or last < base for first, last in taken):
                taken.append((base, base + size))
                return base

    def clocks(self) -> dict[str, Callable[..., object]]:
        """Replacements for functions of `time`, by name."""

        def strftime(form: str, moment: time.struct_time | None = None) -> str:
            return _TRUE_STRFTIME(form, time.localtime(self.time()) if moment is None else moment)

        def sleep(seconds: float) -> None:
            if seconds > 0:
                self.disturb("sleeps")

        return {
            "time": self.time,
            "time_ns": lambda: int(1e9 * self.time()),
            "perf_counter": self.ticks,
            "perf_counter_ns": lambda: int(1e9 * self.ticks()),
            "monotonic": self.ticks,
            "monotonic_ns": lambda: int(1e9 * self.ticks()),
            "process_time": self.ticks,
            "process_time_ns": lambda: int(1e9 * self.ticks()),
            "sleep": sleep,
            "strftime": strftime,
        }

    def hide_clock(self, module: types.ModuleType = _CLOCK) -> None:
        """For the life of this process, replace the functions of `time` by this clock's."""
        for name, clock in self.clocks().items():
            setattr(module, name, clock)

    def hear_of_draws(
        self, kind: type[random.Random] = random.Random, module: types.ModuleType = random
    ) -> None:
        """For the life of this process, notice who draws Python's random numbers: of one call in ten thousand that does something
        else no trace tells."""

        def heard(original: Callable[..., Any]) -> Callable[..., Any]:
            def draw(dice: random.Random, *given: int) -> Any:
                frame: types.FrameType | None = sys._getframe(1)
                while frame is not None and frame.f_globals.get("__name__") == random.__name__:
                    frame = frame.f_back
                if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] not in _OURS:
                    self.disturb("draws random numbers in Python")
                return original(dice, *given)

            return draw

        for name in ("random", "getrandbits"):
            setattr(kind, name, heard(getattr(kind, name)))
            setattr(module, name, getattr(random._inst, name))
