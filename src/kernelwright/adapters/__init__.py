"""Adapters to other training and evaluation frameworks, each one thin file over the same grader.

    grading.py        a completion for a task -> verdict -> reward; a suite as rows of a data set
    for_trl.py        TRL: a reward function, an environment factory
    for_verl.py       verl: compute_score
    for_verifiers.py  verifiers: Taskset and Task
    for_openenv.py    OpenEnv: an Environment and its app
    for_inspect.py    Inspect: a Task with a scorer
    for_skyrl.py      SkyRL-gym: a BaseTextEnv

Each imports its own framework, so they need not be installed together. KERNELWRIGHT_JUDGE names the servers that judge
(`kernelwright serve`); without it a pool is opened in the process. If the judge fails, the reward is never zero: the sample
is left out if the framework can do that, otherwise the judge's error is raised.
"""
