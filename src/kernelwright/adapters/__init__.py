"""Other people's training and evaluation frameworks, each in one thin file over the same grader.

    grading.py        a completion for a task -> verdict -> reward; rows of a suite as data sets want them
    for_trl.py        TRL: a reward function, an environment factory
    for_verl.py       verl: compute_score
    for_verifiers.py  verifiers: Taskset and Task
    for_openenv.py    OpenEnv: an Environment and its app
    for_inspect.py    Inspect: a Task with a scorer
    for_skyrl.py      SkyRL-gym: a BaseTextEnv

Each imports its own framework, so they need not be installed together. KERNELWRIGHT_JUDGE names the servers that judge
(`kernelwright serve`); without it a pool is opened in the process. A judge that fails is never a reward of zero: a sample
is left out where the framework has a way to leave it out, else the run ends with the judge's own error.
"""
