#!/bin/sh
# Makes the model that ships, in stages for machines that are lent for minutes; RUN may be carried from one to the next.
#
#   sh recipes/default_model.sh RUN harvest corpus sft midend measure      # all in order, or some; a finished stage is left as it is
#
# Seconds of the stages: HARVEST_S, CORPUS_S, SFT_S, MIDEND_S. CORES: those to use (taskset's list). The mid-end needs a GPU of its own.
# Figures of this version: docs/runs/corpus.md and docs/runs/plans.md.
set -e
RUN=$1; shift
COUNT=$(env -u OMP_NUM_THREADS nproc)
CORES=${CORES:-0-$((COUNT - 1))}
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
on() { taskset -c "$CORES" "$@" < /dev/null; }
kw() { on "${PYTHON:-python3}" -m kernelwright "$@"; }
workers() { taskset -c "$CORES" env -u OMP_NUM_THREADS nproc; }
stopped() { # a command that is stopped by Ctrl-C after so many seconds keeps what it has
  seconds=$1; shift
  on timeout -s INT -k 30 "$seconds" "${PYTHON:-python3}" -m kernelwright "$@" || [ $? = 124 ] || [ $? = 130 ]
}
data="data.examples=$RUN/corpus/examples.jsonl data.tasks=$RUN/corpus/tasks.jsonl data.tokenizer=$RUN/corpus/tokenizer"
mkdir -p "$RUN"

for stage in "$@"; do
  echo "$(date +%T) $stage"
  case $stage in
  harvest) # the packages: benchmarks/field/__init__.py
    [ -e "$RUN/graphs.jsonl" ] || stopped "${HARVEST_S:-600}" data harvest benchmarks/open_models.py:models -o "$RUN/graphs.jsonl" --jobs "$(workers)"
    [ -e "$RUN/graphs.jsonl" ] || cp "$RUN/graphs.jsonl.part" "$RUN/graphs.jsonl"
    ;;
  corpus)
    [ -e "$RUN/corpus/examples.jsonl" ] || {
      stopped "${CORPUS_S:-600}" data make "$RUN/corpus" tasks="$RUN/graphs.jsonl" seed="${SEED:-1801}" graphs=400000 practice=4000 schedules=3 \
        judged=0.004 catalogue=0.15 varied=0.8 heldout=0.03 faults=0.2 chunk=32 target=h100 max_tokens=1400 'names=["groups"]' --workers "$(workers)"
      kw data merge "$RUN/corpus"
    }
    ;;
  sft)
    [ -e "$RUN/sft/stages/sft/checkpoint" ] ||
      kw train recipes/default_model.toml -o "$RUN/sft" --no-evaluate 'stages=["sft"]' sft.seconds="${SFT_S:-400}" sft.epochs=12 $data
    ;;
  midend)
    [ -e "$RUN/mid/stages/midend/checkpoint" ] ||
      kw train recipes/default_model.toml -o "$RUN/mid" --no-evaluate 'stages=["midend"]' model.init=pretrained \
        model.base="$RUN/sft/stages/sft/checkpoint" verify.backend=cuda verify.workers="$(workers)" midend.steps=400 \
        midend.seconds="${MIDEND_S:-420}" $data
    ;;
  measure) # our modules' groups, by code and by plan, without a GPU for the judge; then what is handed on, with one
    [ -e "$RUN/own.jsonl" ] || {
      FIELD_GROUPS=$RUN/own on "${PYTHON:-python3}" benchmarks/own.py groups --out "$RUN/own-rows.jsonl"
      for one in "$RUN"/own/*.json; do cat "$one"; echo; done > "$RUN/own.jsonl"
    }
    model=$RUN/mid; [ -e "$model" ] || model=$RUN/sft
    for answer in plan+kernels plan; do
      kw eval -s "$RUN/own.jsonl" -p "$model" --backend interpret --target h100 --workers "$(workers)" --max-tokens 1400 \
        --answer $answer -o "$RUN/own-$answer"
    done
    [ ! -e "$RUN/mid" ] || on "${PYTHON:-python3}" benchmarks/handed_on.py "$RUN/handed.jsonl" "$RUN/corpus/examples.jsonl" \
      --sft "$RUN/sft" --midend "$RUN/mid" --limit 70 --samples 1 --workers "$(workers)"
    ;;
  *) echo "no stage $stage: harvest, corpus, sft, midend or measure"; exit 2 ;;
  esac
done
