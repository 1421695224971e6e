"""What is pushed to a Hub is a whole model in one commit, which loads from there; what fails leaves nothing behind."""

import json
import os
import re
import shutil
import subprocess
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard, constants, snapshot_download
from packaging.version import Version
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ELMO_SMALL_EN, ElmoError
from elmo_hf.hub.sharing import Pushed, prepare, push
from support.fresh_python import FRESH_PYTHON
from support.hub_server import READER, WRITER, Hub, hub_for_this_process


NAME = "ann/tiny-elmo"
MADE_ANEW = "README.md on the Hub: made anew, because nobody has edited the old one"

newer = pytest.mark.skipif(
    Version(version("huggingface_hub")) < Version("2"),
    reason="huggingface_hub 1 commits what has not changed, and does not send a file again",
)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_for_this_process(monkeypatch) as server:
        yield server


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def publish(folder: Path, **options: object) -> Pushed:
    return push(folder, NAME, **{"license": "apache-2.0", **options})


def change_weights(folder: Path, **how: object) -> None:
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        model.scalar_mix.gamma += 1
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    model.save_pretrained(folder, **how)


def gamma(**options: object) -> float:
    return AutoModel.from_pretrained(NAME, **options).scalar_mix.gamma.item()


def test_a_model_is_pushed_whole_and_loads_by_its_name(hub: Hub, bilm_model: Path) -> None:
    before = read(bilm_model)

    pushed = publish(bilm_model, language=["en"])

    assert read(bilm_model) == before
    assert pushed.url == f"{hub.url}/{NAME}"
    assert pushed.changed
    assert [commit.oid for commit in hub.repositories[NAME].branches["main"]][1:] == [pushed.commit]
    files = hub.files(NAME)
    assert {name for name in files if files[name] == before.get(name)} == before.keys() - {"README.md"}
    assert files.keys() == before.keys() | {".gitattributes"}
    assert files["README.md"].startswith(b"---\nlanguage: en\nlibrary_name: transformers\nlicense: apache-2.0\n")
    assert f'from_pretrained("{NAME}", trust_remote_code=True)' in files["README.md"].decode()
    assert not hub.repositories[NAME].private
    assert Path(snapshot_download(NAME), "config.json").read_bytes() == before["config.json"]
    words = AutoTokenizer.from_pretrained(NAME)([["a", "bank"]], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        expected, actual = (AutoModel.from_pretrained(name)(**words).last_hidden_state for name in (bilm_model, NAME))
    assert torch.equal(expected, actual)


@newer
def test_what_is_there_is_not_pushed_again(hub: Hub, bilm_model: Path) -> None:
    first = publish(bilm_model)
    hub.seen.clear()

    second = publish(bilm_model)

    assert second == first._replace(changed=False, notes=[MADE_ANEW])
    assert len(hub.repositories[NAME].branches["main"]) == 2
    assert not [request for request in hub.seen if "/commit/" in request or request.startswith("PUT")]


def test_parts_take_the_place_of_one_file_and_the_other_way_round(hub: Hub, spare_model: Path) -> None:
    publish(spare_model)
    parts = {}
    for way, how in (("parts", {"max_shard_size": "1KB"}), ("whole", {})):
        change_weights(spare_model, **how)
        pushed = publish(spare_model)
        parts[way] = {name for name in hub.files(NAME) if ".safetensors" in name}
        assert gamma() == (2 if way == "parts" else 3)
        assert set(pushed.deleted) == ({"model.safetensors"} if way == "parts" else parts["parts"])

    assert len(parts["parts"]) > 2
    assert parts["whole"] == {"model.safetensors"}
    assert len(hub.repositories[NAME].branches["main"]) == 4


def test_commits_and_branches_can_be_pinned(hub: Hub, spare_model: Path) -> None:
    first = publish(spare_model)
    change_weights(spare_model)
    second = publish(spare_model, message="Make it larger")
    change_weights(spare_model)
    third = publish(spare_model, revision="next")

    assert [gamma(revision=name) for name in (first.commit, second.commit, third.commit, "main", "next")] == [
        1, 2, 3, 2, 3,
    ]  # fmt: skip
    assert hub.repositories[NAME].branches["main"][-1].message == "Make it larger"
    assert not publish(spare_model, revision="next").changed


@newer
def test_private_is_private(hub: Hub, bilm_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(bilm_model, private=True)

    assert hub.repositories[NAME].private
    assert not publish(bilm_model, private=True).changed
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(OSError, match="not a valid model identifier"):
        AutoModel.from_pretrained(NAME)


def test_what_was_to_be_private_does_not_get_public(hub: Hub, spare_model: Path) -> None:
    publish(spare_model)
    change_weights(spare_model)

    with pytest.raises(ElmoError, match=f"{NAME} is public: make it private"):
        publish(spare_model, private=True)

    assert len(hub.repositories[NAME].branches["main"]) == 2


def test_only_what_belongs_to_the_model_is_sent(spare_model: Path) -> None:
    shutil.copytree(spare_model, spare_model / "checkpoint-3")
    left = ["training_args.bin", "optimizer.pt", ".hidden", "x.partial", "test.conll", "notes.md", "other.json"]
    for name in [*left, "layers.png", "LICENSE", "test_results.json"]:
        (spare_model / name).write_text("{}", encoding="utf-8")
    with (spare_model / "README.md").open("a", encoding="utf-8") as card:
        card.write("![layers](layers.png) [site](https://example.org/notes.md) [up](../notes.md)\n")

    upload = prepare(spare_model, NAME, license="mit")

    assert upload.left == sorted([*left, "checkpoint-3"])
    assert {"layers.png", "LICENSE", "test_results.json", "README.md", "provenance.json"} <= upload.files.keys()
    assert upload.files["model.safetensors"] == (spare_model / "model.safetensors").stat().st_size
    assert upload.files["README.md"] == len(upload.card.encode())


def test_the_card_of_the_hub_stays_where_the_folder_has_none(hub: Hub, spare_model: Path) -> None:
    (spare_model / "README.md").unlink()
    assert publish(spare_model).notes == ["README.md: a new one"]
    assert b"\n| parameters |" in hub.files(NAME)["README.md"]
    hub.repositories[NAME].commit(
        "main", "by hand", hub.files(NAME) | {"README.md": b"# Mine\n", "notes.txt": b"Mine"}
    )

    pushed = publish(spare_model)

    assert hub.files(NAME)["README.md"].endswith(b"---\n\n# Mine\n")
    assert hub.files(NAME)["notes.txt"] == b"Mine"
    assert pushed.notes == [
        "README.md on the Hub: kept, with license, library_name, pipeline_tag and tags added to its metadata"
    ]
    assert not publish(spare_model).changed
    with pytest.raises(ElmoError, match=r"README\.md on the Hub has the license apache-2\.0, not mit"):
        publish(spare_model, license="mit")
    publish(spare_model, replace_card=True)
    assert b"# tiny-elmo" in hub.files(NAME)["README.md"]


def test_a_new_card_keeps_what_the_metadata_say(spare_model: Path) -> None:
    figures = "model-index:\n- name: mine\n  results: []\n"
    (spare_model / "README.md").write_text(
        f"---\nlicense: mit\ndatasets:\n- own\ntags:\n- mine\nlanguage: [en, de]\n{figures}---\nMine\n"
    )

    upload = prepare(spare_model, NAME, replace_card=True, language=["en", "de"], base_model="ann/base")

    assert "Mine" not in upload.card
    for part in (
        "license: mit",
        "datasets:\n- own",
        "language:\n- en\n- de",
        "base_model: ann/base",
        figures,
        "# tiny-elmo",
    ):
        assert part in upload.card
    assert "- mine" in upload.card
    assert upload.notes == ["README.md: a new one"]


def test_the_licence_is_asked_for_and_not_guessed(spare_model: Path) -> None:
    with pytest.raises(ElmoError, match=r"does not say its licence: give .+ by --license"):
        prepare(spare_model, NAME)
    with pytest.raises(ElmoError, match=r"'Apache 2' is no licence that the Hub knows: .+ such as apache-2\.0"):
        prepare(spare_model, NAME, license="Apache 2")
    assert "\nlicense: apache-2.0\n" in prepare(spare_model, NAME, license="Apache-2.0").card
    (spare_model / "README.md").write_text("---\nlicense: mit\n---\nMine", encoding="utf-8")
    assert "\nlicense: mit\n" in prepare(spare_model, NAME).card
    (spare_model / "README.md").write_text("---\nlicense: mit\nlanguage: [en]\n---\nMine", encoding="utf-8")
    assert "language: [en]" in prepare(spare_model, NAME, language=["en"]).card
    with pytest.raises(ElmoError, match=r"README\.md has the license mit, not apache-2\.0"):
        prepare(spare_model, NAME, license="apache-2.0")


def test_a_card_that_was_made_follows_the_model(hub: Hub, spare_model: Path) -> None:
    publish(spare_model)
    first = hub.files(NAME)["README.md"]
    change_weights(spare_model, max_shard_size="1KB")
    edit_json(spare_model / "provenance.json", converter="elmo_hf 9")
    hub.repositories[NAME].commit(
        "main", "by hand", hub.files(NAME) | {"README.md": first.replace(b"tags:", b"a: b\ntags:")}
    )

    assert publish(spare_model).notes == [MADE_ANEW]

    second = hub.files(NAME)["README.md"]
    assert b"converted by elmo_hf 9" in second
    assert b"\na: b\n" in second
    assert b"elmo_hf 9" not in first


@pytest.mark.parametrize("name", ["tiny", "a/b/c", "ann/-x", "ann/x y", "ann/a--b", "/x", "ann/", ""])
def test_a_name_that_the_hub_does_not_take_is_refused(name: str, bilm_model: Path) -> None:
    with pytest.raises(ElmoError, match="is no name on the Hub"):
        prepare(bilm_model, name, license="mit")


def edit_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")


DAMAGE = {
    "no_code": (lambda folder: (folder / "recurrence_elmo.py").unlink(), "recurrence_elmo.py is missing, which"),
    "no_class": (lambda folder: (folder / "modeling_elmo.py").unlink(), "has no modeling_elmo.py, the code of"),
    "no_map": (lambda folder: edit_json(folder / "config.json", auto_map={}), "config.json has no auto_map"),
    "no_tokenizer": (lambda folder: (folder / "tokenizer_config.json").unlink(), "_config.json has no auto_map"),
    "no_words": (lambda folder: (folder / "tokenizer.json").unlink(), "The tokenizer in"),
    "no_weights": (lambda folder: (folder / "model.safetensors").unlink(), "The model in"),
    "cut": (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "The model in"),
    "twice": (lambda folder: (folder / "model.safetensors.index.json").touch(), "has its weights twice"),
    "other": (lambda folder: edit_json(folder / "config.json", architectures=["BertModel"]), "names no class of"),
    "card": (lambda folder: (folder / "README.md").write_bytes(b"\xff"), "README.md is not UTF-8"),
    "none": (shutil.rmtree, "is not a folder"),
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGE)
def test_what_is_no_whole_model_is_refused(how: str, spare_model: Path) -> None:
    damage, message = DAMAGE[how]
    damage(spare_model)

    with pytest.raises(ElmoError) as caught:
        prepare(spare_model, NAME, license="mit")

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_only_the_package_can_load_is_refused() -> None:
    with pytest.raises(ElmoError, match=r"config\.json has no auto_map, without which others cannot load it: load"):
        prepare(ELMO_SMALL_EN, NAME)


def test_other_code_is_told_of(spare_model: Path) -> None:
    with (spare_model / "crf_elmo.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")

    notes = prepare(spare_model, NAME, license="mit").notes

    assert re.fullmatch(r"the code in .+ is not that of elmo_hf [\d.]+: crf_elmo\.py", notes[1])


# for each: what goes wrong, how often, and what is said
FAILURES = {
    "401": ("GET /api/models", (401, "Invalid credentials in Authorization header"), 1, "does not know the access"),
    "403": ("POST /api/repos/create", 403, 1, "The access token may not write to ann/tiny-elmo (403)"),
    "404": ("POST /api/models/.+/preupload", 404, 1, "ann/tiny-elmo does not exist, or is not yours to see (404)"),
    "409": ("POST /api/models/.+/commit", 409, 1, "was changed by somebody else meanwhile (409): push again"),
    "412": ("POST /api/models/.+/commit", 412, 1, "was changed by somebody else meanwhile (412): push again"),
    "429": ("POST /api/models/.+/commit", 429, 1, "too many requests"),
    "402": ("POST /api/repos/create", (402, "Pay first"), 1, "refuses ann/tiny-elmo (Pay first)"),
    "503": ("PUT /storage", 503, 6, "The Hub has trouble"),
    "507": ("PUT /storage", (507, "Disk full"), 1, "The Hub has trouble"),
    "at first": ("GET /api/models", "break", 1, "broke"),
    "in the files": ("PUT /storage", "break", 6, "broke"),
    "in the commit": ("POST /api/models/.+/commit", "break", 1, "broke"),
}  # fmt: skip


@pytest.mark.parametrize("how", [pytest.param(how, marks=newer) if how == "in the files" else how for how in FAILURES])
def test_what_goes_wrong_is_one_line_and_leaves_nothing_half_done(how: str, hub: Hub, bilm_model: Path) -> None:
    pattern, failure, times, message = FAILURES[how]
    hub.fail = [(pattern, failure)] * times

    with pytest.raises(ElmoError) as caught:
        publish(bilm_model)

    said = str(caught.value)
    assert message in said
    assert "\n" not in said
    assert "signature" not in said
    assert WRITER not in "".join(traceback.format_exception(caught.value))
    assert not hub.fail
    commits = hub.repositories[NAME].branches["main"] if NAME in hub.repositories else []
    assert [commit.message for commit in commits] == ["initial commit"] * len(commits)
    assert said.endswith("ann/tiny-elmo was created, and stays.") == bool(commits)
    # as it says
    assert publish(bilm_model).changed


@newer
def test_a_broken_connection_is_tried_again(hub: Hub, bilm_model: Path) -> None:
    hub.fail = [("PUT /storage", "break"), ("preupload", 503)]

    assert publish(bilm_model).changed
    assert not hub.fail


@pytest.mark.usefixtures("hub")
def test_one_without_the_right_to_write_is_told_so(bilm_model: Path) -> None:
    publish(bilm_model)

    with pytest.raises(ElmoError, match=rf"may not write to {NAME} \(403\): use one that may, of ann or a member"):
        publish(bilm_model, token=READER)
    with pytest.raises(ElmoError, match="does not know the access token"):
        publish(bilm_model, token="hf_unknown")


def test_metadata_that_the_hub_refuses_create_no_repository(hub: Hub, bilm_model: Path) -> None:
    with pytest.raises(ElmoError, match=r'The Hub refuses the metadata of README\.md \("language" must be a code'):
        publish(bilm_model, language="qqq")

    assert NAME not in hub.repositories


def test_metadata_that_the_hub_would_refuse_are_refused_without_it(hub: Hub, spare_model: Path) -> None:
    with pytest.raises(ElmoError, match=r"'jp' is no language code: .+ such as ja,"):
        publish(spare_model, language="jp")
    (spare_model / "README.md").write_text("---\nlicense: free\n---\nMine", encoding="utf-8")
    with pytest.raises(ElmoError, match=r"README\.md: 'free' is no licence that the Hub knows"):
        push(spare_model, NAME)

    assert hub.seen == []


def test_data_sets_and_results_are_added_to_a_card_that_stays(spare_model: Path) -> None:
    (spare_model / "README.md").write_text("---\nlicense: mit\n---\nMine", encoding="utf-8")
    (spare_model / "test_results.json").write_text('{"test_f1": 0.5, "test_runtime": 3}', encoding="utf-8")

    upload = prepare(spare_model, NAME, datasets=["ann/names"], base_model="ann/base")

    card = ModelCard(upload.card)
    assert (card.data.datasets, card.data.base_model) == (["ann/names"], "ann/base")
    assert [(result.dataset_type, result.metric_value) for result in card.data.eval_results] == [("ann/names", 0.5)]
    assert card.text.strip() == "Mine"


@pytest.mark.usefixtures("hub")
def test_a_hub_that_is_not_there_is_named(bilm_model: Path) -> None:
    with pytest.raises(
        ElmoError, match=r"http://127\.0\.0\.1:1 cannot be reached \(.*refused.*\): see to the network"
    ):
        publish(bilm_model, endpoint="http://127.0.0.1:1")


def test_offline_and_without_a_token_nothing_is_asked_for(
    hub: Hub, bilm_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ElmoError, match="You are not logged in to the Hub: run `hf auth login`"):
        publish(bilm_model)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ElmoError, match="unset HF_HUB_OFFLINE"):
        publish(bilm_model)

    assert hub.seen == []


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("token", ["hf_Secret\u00e9Secret", "hf_Secret Secret", "hf_Secret\x7fSecret"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str, bilm_model: Path) -> None:
    with pytest.raises(ElmoError, match="has characters that no token has") as caught:
        publish(bilm_model, token=token)

    assert "Secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["README.md", "provenance.json"])
def test_a_file_with_the_token_is_not_sent(name: str, hub: Hub, spare_model: Path) -> None:
    with (spare_model / name).open("a", encoding="utf-8") as file:
        file.write("\n" * 3 + f"{WRITER}" if name == "README.md" else "")
    if name != "README.md":
        edit_json(spare_model / name, note=WRITER)

    with pytest.raises(ElmoError, match=rf"{name} holds your access token: take it out") as caught:
        publish(spare_model)

    assert WRITER not in str(caught.value)
    assert hub.seen == []


def test_a_token_that_the_hub_repeats_is_not_shown(hub: Hub, bilm_model: Path) -> None:
    hub.fail = [("POST /api/repos/create", (418, f"{WRITER} is a teapot"))]

    with pytest.raises(ElmoError, match=r"\[token\] is a teapot") as caught:
        publish(bilm_model)

    assert WRITER not in "".join(traceback.format_exception(caught.value))


# what a process does that has not the package: from the Hub, without it, and at an earlier commit
PROGRAM = """
import re, sys
name, first = sys.argv[1:]
sys.modules["elmo_hf"] = sys.modules["elmo_hf_conversion"] = None
from huggingface_hub import constants, hf_hub_download
from transformers import AutoModel
card = open(hf_hub_download(name, "README.md"), encoding="utf-8").read()
with_package, = (part for part in re.findall(r"```python\\n(.*?)```", card, re.DOTALL) if "import elmo_hf" in part)
for offline in (False, True):
    constants.HF_HUB_OFFLINE = offline
    for example in re.findall(r"```python\\n(.*?)```", card, re.DOTALL):
        if example != with_package:
            variables = {}
            exec(example, variables)
    assert variables["model"].scalar_mix.gamma.item() == 2
    assert type(variables["model"]).__module__.startswith("transformers_modules.")
    assert variables["vectors"].shape[0] == 6
constants.HF_HUB_OFFLINE = False
earlier = AutoModel.from_pretrained(name, revision=first, code_revision=first, trust_remote_code=True)
assert earlier.scalar_mix.gamma.item() == 1
"""


@pytest.mark.slow
def test_it_loads_by_its_name_where_the_package_is_not_installed(hub: Hub, spare_model: Path, tmp_path: Path) -> None:
    first = publish(spare_model, replace_card=True)
    change_weights(spare_model, max_shard_size="1KB")
    publish(spare_model, replace_card=True)
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }

    command = [*FRESH_PYTHON, "-c", PROGRAM, NAME, first.commit]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
