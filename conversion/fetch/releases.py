"""List the known releases of ELMo: their files, addresses and licences, and whether they convert.

Links and sizes come from the publishers' documentation. The links were not tried.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any


AI2 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/"
NLPL = "http://vectors.nlpl.eu/repository/"

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Release:
    """One release, or one family of releases of the same kind.

    Attributes:
        name: Its name.
        content: Languages or domain, and the training text.
        format: The format of its files.
        files: Names of the files, as published.
        where: The publisher's address.
        size: Size of the weights, and width of the vectors; `~` marks parameters times four bytes.
        licence: The licence of the weights, if stated.
        converts: Whether this version converts it.
        how: The sources to give to `convert`, or why it is refused.
    """

    name: str
    content: str
    format: str
    files: str
    where: str
    size: str = ""
    licence: str = NOT_STATED
    converts: bool = True
    how: str = "weights and options"

    @property
    def kind(self) -> str:
        """Format and size, for a table."""
        return f"{self.format}, {self.size}" if self.size else self.format

    @property
    def answer(self) -> str:
        """Whether and how it converts, for a table."""
        return f"{'yes' if self.converts else 'no'}: {self.how}"


RELEASES = (
    Release(
        "English small",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5, elmo_2x1024_128_2048cnn_1xhighway_options.json",
        f"{AI2}2x1024_128_2048cnn_1xhighway/",
        "~54 MB, vectors 256",
    ),
    Release(
        "English medium",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "elmo_2x2048_256_2048cnn_1xhighway_weights.hdf5, elmo_2x2048_256_2048cnn_1xhighway_options.json",
        f"{AI2}2x2048_256_2048cnn_1xhighway/",
        "~112 MB, vectors 512",
    ),
    Release(
        "English original",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5, elmo_2x4096_512_2048cnn_2xhighway_options.json, "
        "vocab-2016-09-10.txt",
        f"{AI2}2x4096_512_2048cnn_2xhighway/",
        "374 MB, vectors 1024",
        how="weights and options; the vocabulary too, if word ids matter",
    ),
    Release(
        "English 5.5B",
        "English, Wikipedia and WMT 2008-2012",
        "HDF5",
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5, elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json",
        f"{AI2}2x4096_512_2048cnn_2xhighway_5.5B/",
        "~374 MB, vectors 1024",
    ),
    Release(
        "English checkpoints",
        "the training folders of English medium and original",
        "TensorFlow checkpoint",
        "checkpoint, options.json, model.ckpt-935588.* (original), model.ckpt-1501260.* (medium)",
        f"{AI2}2x4096_512_2048cnn_2xhighway_tf_checkpoint/ and 2x2048_256_2048cnn_1xhighway/tf_checkpoint/",
        how="the folder with all of its files",
    ),
    Release(
        "PubMed",
        "English, biomedical",
        "HDF5",
        "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5, elmo_2x4096_512_2048cnn_2xhighway_options.json",
        f"{AI2}contributed/pubmed/",
        "as English original",
    ),
    Release(
        "BioELMo",
        "English, 2.46 billion words of PubMed; perplexity 31.37",
        "HDF5; TensorFlow checkpoint",
        "weights, options, vocabulary; a checkpoint in three files",
        "links in github.com/Andy-jqa/bioelmo",
        how="weights, options and vocabulary; or the folder of the checkpoint",
    ),
    Release(
        "Portuguese, Wikipedia",
        "Portuguese",
        "HDF5",
        "elmo_pt_weights.hdf5, options.json",
        f"{AI2}contributed/pt/wikipedia/",
    ),
    Release(
        "Portuguese, brWaC",
        "Portuguese, the web",
        "HDF5",
        "elmo_pt_weights_dgx1.hdf5, options.json",
        f"{AI2}contributed/pt/brwac/",
    ),
    Release(
        "Portuguese, older",
        "Portuguese, as Flair used it",
        "HDF5",
        "elmo_pt_weights.hdf5, elmo_pt_options.json",
        f"{AI2}contributed/pt/",
    ),
    Release(
        "Japanese",
        "Japanese, ExaWizards (ACL P19-1458)",
        "HDF5",
        "weights.hdf5, options.json",
        "https://exawizardsallenlp.blob.core.windows.net/data/",
    ),
    Release(
        "German",
        "German, Wikipedia",
        "TensorFlow checkpoint",
        "bilm-output-result.tgz.part-00 to .part-03",
        "links and MD5 sums in github.com/t-systems-on-site-services-gmbh/german-elmo-model",
        how="join the parts (`cat bilm-output-result.tgz.part-* > german.tgz`), unpack, give the folder",
    ),
    Release(
        "French",
        "French, OSCAR and Common Crawl",
        "HDF5; zip",
        "elmo_fr_020_weights.hdf5, elmo_fr_020_options.json; fr.zip",
        "registry of github.com/kermitt2/delft; https://traces1.inria.fr/oscar/files/models/cc/",
        how="weights and options, or the zip",
    ),
    Release(
        "SeqVec",
        "proteins, UniRef50; a word is one residue",
        "HDF5 in a zip",
        "seqvec.zip (weights.hdf5, options.json)",
        "https://rostlab.org/~deepppi/seqvec.zip",
        "374,434,776 bytes, vectors 1024",
        how="the zip; its users take the sum of the layers, 3 times the mean",
    ),
    Release(
        "NLPL",
        "many languages, from their text collections of 2017 on",
        "HDF5 in a zip",
        "<id>.zip (meta.json, model.hdf5, options.json, mostly vocab.txt or vocab.txt.gz)",
        f"{NLPL}11/ and 20/; catalogue 20.json",
        "vary",
        how="the zip; ids 136 to 179 are ELMoForManyLangs",
    ),
    Release(
        "RusVectores",
        "Russian, words (195) and lemmas (196), Taiga 2048 and others",
        "HDF5 in a zip",
        "195.zip, 196.zip",
        f"{NLPL}20/",
        "vary",
        how="the zip",
    ),
    Release(
        "NorELMo",
        "Norwegian; 217 and 218 with 30,000 and 100,000 words",
        "HDF5 in a zip",
        "210.zip, 211.zip, 217.zip, 218.zip",
        f"{NLPL}20/",
        how="the zip",
    ),
    Release(
        "EMBEDDIA",
        "Croatian, Estonian, Finnish, Latvian, Lithuanian, Slovene, Swedish (arXiv 1911.10049)",
        "HDF5",
        "weights and options of bilm-tf",
        "CLARIN.SI, handle 11356/1277",
        licence="see the CLARIN page",
    ),
    Release(
        "ELMoForManyLangs",
        "44 languages",
        "ELMoForManyLangs in a zip",
        "136.zip to 179.zip (config.json, meta.json, word.dic, char.dic, encoder.pkl, token_embedder.pkl)",
        f"{NLPL}11/",
        "vectors 1024",
        licence="of the code: MIT; of the weights: not stated",
        how="the zip or its folder",
    ),
    Release(
        "ELMoForManyLangs, simplified Chinese",
        "Chinese",
        "ELMoForManyLangs in a tar.bz2",
        "zhs.model.tar.bz2",
        "link in github.com/HIT-SCIR/ELMoForManyLangs",
        "vectors 1024",
        licence="of the code: MIT; of the weights: not stated",
        how="the archive or its folder",
    ),
    Release(
        "AllenNLP archives",
        "trained taggers, parsers and others with an ELMo inside",
        "AllenNLP archive",
        "model.tar.gz; weights.th, best.th",
        "AllenNLP's model pages; mirrors: lysandre/bidaf-elmo-model-2020.03.19 (450 MB) and IshiKura/ELMo (MIT)",
        licence="as each publisher states",
        how="the archive; the ELMo with its trained mix is taken, the rest is left",
    ),
    Release(
        "Multilingual, aligned",
        "several languages in one space (TalSchuster/CrossLingualContextualEmb)",
        "HDF5 or AllenNLP archive",
        "an ELMo and matrices of alignment for each language",
        "links in github.com/TalSchuster/CrossLingualContextualEmb",
        how="one language at a time",
    ),
    Release(
        "Hub mirrors",
        "English original and AllenNLP's tiny test model",
        "HDF5",
        "weights.hdf5, options.json",
        "huggingface.co: lysandre/elmo, lysandre/elmo-2x4096_512_2048cnn_2xhighway, lysandre/test-elmo-tiny",
        "374 MB, vectors 1024",
    ),
    Release(
        "TensorFlow Hub",
        "English, google/elmo 1 to 3",
        "SavedModel",
        "saved_model.pb, variables",
        "https://tfhub.dev/google/elmo/3",
        "vectors 1024",
        how="the folder or archive, by the names that TensorFlow Hub logs",
    ),
    Release(
        "DeepPavlov",
        "Russian: news, Wikipedia, Twitter",
        "SavedModel; TensorFlow checkpoint",
        "elmo_ru-news_wmt11-16_1.5M_steps.tar.gz, elmo_ru-wiki_600k_steps.tar.gz, "
        "elmo_ru-twitter_2013-01_2018-04_600k_steps.tar.gz",
        "https://files.deeppavlov.ai/deeppavlov_data/",
        "checkpoints about 4 GB",
        how="the archive; of elmo-lm-ready4fine-tuning-ru-*, the folder of one checkpoint with options and vocabulary",
    ),
    Release(
        "transformer-elmo",
        "English; Basque (eu-elmo-transformer-model.tar.gz)",
        "AllenNLP archive",
        "transformer-elmo-2019.01.10.tar.gz",
        "AllenNLP's models; schweter.eu",
        converts=False,
        how="not an LSTM ELMo: a Transformer under its name",
    ),
    Release(
        "Indian languages",
        "14 languages (LREC 2020, A Passage to India)",
        "unknown",
        "436 models, some of them ELMo",
        "the page of the paper",
        converts=False,
        how="not seen; try it if it is HDF5 with options",
    ),
)


def as_text(releases: Iterable[Release] = RELEASES, *, width: int = 100) -> str:
    """Format the releases for a terminal: a paragraph for each, with a name and a value on each line.

    Args:
        releases: The releases.
        width: The number of columns.

    Returns:
        The text, without a final line break. File names and addresses are not broken.
    """
    return "\n\n".join("\n".join(_lines(release, width)) for release in releases)


def _lines(release: Release, width: int) -> Iterator[str]:
    yield release.name
    for label, value in (
        ("content", release.content),
        ("format", release.kind),
        ("files", release.files),
        ("where", release.where),
        ("licence", release.licence),
        ("converts", release.answer),
    ):
        yield from textwrap.wrap(
            value,
            width,
            initial_indent=f"  {label:<10}",
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )


def as_markdown(releases: Iterable[Release] = RELEASES) -> str:
    """Format the releases as the table of docs/conversion.md."""
    rows = [("release", "content", "format, size", "files", "where", "licence", "converts"), ("---",) * 7]
    rows += [
        (each.name, each.content, each.kind, each.files, each.where, each.licence, each.answer) for each in releases
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_data(releases: Iterable[Release] = RELEASES) -> list[dict[str, Any]]:
    """Return the releases as data for JSON."""
    return [asdict(release) for release in releases]


__all__ = ["RELEASES", "Release", "as_data", "as_markdown", "as_text"]
