"""Recipes: valid ones are read, invalid ones give one line with the fix."""

from pathlib import Path

import pytest

from kernelwright.config import DataConfig, Recipe, load_recipe, parse_recipe
from kernelwright.errors import UserError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_is_named_after_its_file(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path / "small.toml", "seed = 3")).name == "small"


def test_overrides_are_toml_and_win_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", "[frontend]\nsteps = 3\n")
    recipe = load_recipe(path, ["frontend.steps=7", "sft.learning_rate=1e-3", 'stages=["sft", "frontend"]'])
    assert (recipe.frontend.steps, recipe.sft.learning_rate, recipe.stages) == (7, 1e-3, ("sft", "frontend"))


def test_an_override_that_is_not_toml_is_text(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path / "r.toml", ""), ["model.base=a/b"]).model.base == "a/b"


def test_the_packages_own_model_is_a_base_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", "")
    recipe = load_recipe(path, ["model.init=pretrained", "model.base=default"])
    assert (Path(recipe.model.base) / "config.json").is_file()


def test_whole_numbers_serve_as_floats() -> None:
    assert parse_recipe({"frontend": {"alpha": 1}}).frontend.alpha == 1.0


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("frontend.setps=4", "did you mean frontend.steps?"),
        ("learning_rate=1", "unknown key learning_rate"),
        ("frontend.steps=four", 'frontend.steps = "four"'),
        ("frontend.steps=1.5", "frontend.steps = 1.5"),
        ("frontend.samples=1", "frontend.samples = 1"),
        ("frontend.minibatch=3", "does not divide an update's 32 rows"),
        ("frontend.updates=5", "does not divide a step's 32 rows"),
        ("sft.minibatch=3", "does not divide batch = 16"),
        ("generation.engine=vllm-server", "set generation.server"),
        ("report_to=['mlflow']", "report_to.0"),
        ("frontend={staleness=1,top_p=0.9}", "staleness needs the log-probs of what was sampled from"),
        ("frontend.weights={norm=-1.0}", "frontend.weights.norm = -1.0"),
        ("frontend.turns=9", "frontend.turns = 9"),
        ("model.init=none", "'random' or 'pretrained'"),
        ("model.init=pretrained", "set model.base"),
        ('stages=["midend", "sft"]', "in the order sft, frontend, midend, backend"),
        ("steps", "not key=value"),
        ("seed.deep=1", "seed is a value"),
    ],
)
def test_a_wrong_override_is_one_line(tmp_path: Path, override: str, said: str) -> None:
    path = write(tmp_path / "r.toml", "seed = 1\n")
    with pytest.raises(UserError) as error:
        load_recipe(path, [override])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_key_lists_the_valid_ones() -> None:
    with pytest.raises(UserError, match=r"valid: .*credit.*temperature"):
        parse_recipe({"midend": {"colour": 1}})


@pytest.mark.parametrize(("content", "said"), [(b"a = [", "not TOML"), (b"\xff\xfe", "cannot be read")])
def test_an_unreadable_recipe_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        load_recipe(path)


def test_a_missing_recipe_says_where_recipes_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_recipe(tmp_path / "none.toml")


def test_the_corpus_takes_the_recipes_settings() -> None:
    from kernelwright.data import CorpusSettings

    data = DataConfig(graphs=7, schedules=2, forms=("map",))
    made = CorpusSettings.of(data, seed=3)
    assert (made.graphs, made.schedules, made.forms, made.seed) == (7, 2, ("map",), 3)
    assert set(DataConfig.model_fields) - {
        "examples",
        "tasks",
        "tokenizer",
        "source",
        "answer",
        "think",
        "profile",
    } <= set(CorpusSettings.model_fields)


def test_a_recipe_survives_json() -> None:
    recipe = Recipe(name="x", stages=("sft", "midend"))
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_every_shipped_recipe_is_valid() -> None:
    recipes = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
    assert [load_recipe(path).name for path in recipes]
