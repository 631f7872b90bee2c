"""The data engine: operator graphs in, verified PyTorch-Triton pairs out.

    graph -> Model source (source.py) + kernel (library.py) + plan (plans.py) -> Example (pairs.py)
          -> verdict (corpus.validate) -> split (corpus.split) -> tokenizer (tokenizer.py)

The entry points are `corpus.synth`, `corpus.validate`, `corpus.split` and `tokenizer.train_tokenizer`.
"""
