"""Races kernels against themselves: how often is one called faster, and does the interval contain the true ratio?

    python benchmarks/noise.py [--tasks relu,softmax_rows,layernorm,matmul_batched] [--races 50] [--precision 0.01]

The true ratio is 1. Prints the share of races whose interval lies entirely beyond the 3 % dead band (a false
"faster"), and the share whose 95 % interval contains 1.
"""

import argparse
import time

from kernelwright import tasks
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate
from kernelwright.verify import VerifierPool
from kernelwright.verify.gpu.timing import PRECISION
from kernelwright.verify.gpu.verification import MeasuredVerification

DEAD_BAND = 0.03


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", default="relu,softmax_rows,layernorm,matmul_batched,cumsum,loss_mse")
    parser.add_argument("--races", type=int, default=50)
    parser.add_argument("--precision", type=float, default=PRECISION)
    args = parser.parse_args()
    suite = tasks.load_suite(f"wright/{args.tasks}")
    false, held, total = 0, 0, 0
    with VerifierPool(1, "cuda", compiled=False, timing_precision=args.precision) as pool:
        for task in suite:
            candidate = Candidate(code=gold(task.id))
            widest, start = 0.0, time.perf_counter()
            for _ in range(args.races):
                verification = pool._verification(task, candidate)
                assert isinstance(verification, MeasuredVerification)
                verification.against_itself = True
                verdict = verification.verdict()
                assert verdict.timing is not None, verdict
                low, high = verdict.timing.speedup_ci["eager"]
                total += 1
                false += low > 1 + DEAD_BAND
                held += low <= 1.0 <= high
                widest = max(widest, (high - low) / 2)
            print(
                f"{task.id}: widest half-width {widest:.2%}, {time.perf_counter() - start:.1f} s", flush=True
            )
    print(
        f"{total} races: {false / total:.2%} false 'faster' beyond {DEAD_BAND:.0%}, {held / total:.1%} intervals hold 1"
    )


if __name__ == "__main__":
    main()
