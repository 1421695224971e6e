"""List the known releases of ELMo: what you type, their files and addresses, licences, and whether they convert.

Addresses, sizes and checksums come from the publishers' documentation. The addresses were not tried.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit


# one bucket under its two names
AI2 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/"
AI2_TOO = "https://allennlp.s3.amazonaws.com/models/elmo/"

NLPL = "http://vectors.nlpl.eu/repository/"
HUB = "https://huggingface.co/lysandre/"
GERMAN = "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model/"
DEEPPAVLOV = "http://files.deeppavlov.ai/deeppavlov_data/"
CLARIN = "https://www.clarin.si/repository/xmlui/"

NOT_STATED = "not stated"
NOT_STATED_OF_WEIGHTS = "of the code: MIT; of the weights: not stated"


@dataclass(frozen=True)
class Download:
    """One file of a release.

    Attributes:
        urls: The publisher's address, then the next best ones. In a family of releases `{}` stands for the place
            of a member.
        checksum: Algorithm and hexadecimal digits, such as `md5:...`, if the publisher states a checksum.
    """

    urls: tuple[str, ...]
    checksum: str = ""

    @property
    def file_name(self) -> str:
        """The name of the file, as published."""
        return urlsplit(self.urls[0]).path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Member:
    """One language of a family.

    Attributes:
        code: The ISO code of the language, for the name of the family: `efml:zh`.
        language: The English name of the language, which may be typed too.
        place: The part that replaces `{}` in the addresses.
    """

    code: str
    language: str
    place: str


@dataclass(frozen=True)
class Release:
    """One release, or one family of releases of the same kind.

    Attributes:
        title: Its title.
        content: Languages or domain, and the training text.
        format: The format of its files.
        name: What you give to `convert`. That of a family ends with its argument: `efml:LANG`.
        downloads: The files that the name fetches, if they have known addresses.
        members: The languages of a family. A family without a list takes any number.
        files: Names of the files, as published; by default those of `downloads`.
        where: The publisher's address; by default that of the first download.
        size: Size of the weights; `~` marks parameters times four bytes.
        width: Width of the vectors, if known.
        licence: The licence of the weights, if stated.
        converts: Whether this version converts it.
        how: The sources to give to `convert`, or why it is refused.
        by_hand: What to do if the name fetches nothing; the end of a sentence.
    """

    title: str
    content: str
    format: str
    name: str = ""
    downloads: tuple[Download, ...] = ()
    members: tuple[Member, ...] = ()
    files: str = ""
    where: str = ""
    size: str = ""
    width: int | None = None
    licence: str = NOT_STATED
    converts: bool = True
    how: str = "weights and options"
    by_hand: str = ""

    @property
    def is_family(self) -> bool:
        """Whether the name takes an argument."""
        return any("{}" in url for download in self.downloads for url in download.urls)

    @property
    def all_content(self) -> str:
        """The content, with the languages of a family."""
        languages = ", ".join(f"{member.code} {member.language}" for member in self.members)
        return f"{self.content}: {languages}" if languages else self.content

    @property
    def file_names(self) -> str:
        """The names of the files, for people."""
        return self.files or ", ".join(download.file_name for download in self.downloads)

    @property
    def address(self) -> str:
        """The publisher's address, for people."""
        if self.where or not self.downloads:
            return self.where
        first = self.downloads[0].urls[0]
        return first if len(self.downloads) == 1 else first.rsplit("/", 1)[0] + "/"

    @property
    def measures(self) -> str:
        """Size and width of the vectors, as far as known."""
        return ", ".join(part for part in (self.size, self.width and f"vectors {self.width}") if part)

    @property
    def kind(self) -> str:
        """Format, size and width of the vectors, for a table."""
        return f"{self.format}, {self.measures}" if self.measures else self.format

    @property
    def answer(self) -> str:
        """Whether and how it converts, for a table."""
        return f"{'yes' if self.converts else 'no'}: {self.how}"

    def of_place(self, place: str, *, name: str, content: str) -> "Release":
        """Return one member of this family as a release of its own."""
        downloads = tuple(
            replace(download, urls=tuple(url.replace("{}", place) for url in download.urls))
            for download in self.downloads
        )
        return replace(self, name=name, content=content, downloads=downloads, members=(), files="", where="")


def _ai2(folder: str, *names: str) -> tuple[Download, ...]:
    """Return files in a folder of AI2's bucket."""
    return tuple(Download((f"{AI2}{folder}{name}", f"{AI2_TOO}{folder}{name}")) for name in names)


def _original(*names: str) -> tuple[Download, ...]:
    """Return weights and options of English original, which are on the Hub too."""
    shape = "2x4096_512_2048cnn_2xhighway"
    return tuple(
        replace(download, urls=(*download.urls, f"{HUB}elmo-{shape}/resolve/main/{name}"))
        for name in names
        for download in _ai2(f"{shape}/", f"elmo_{shape}_{name}")
    )


def _one(*urls: str) -> tuple[Download, ...]:
    """Return a single file with its addresses."""
    return (Download(urls),)


def _aligned(code: str, language: str, folder: str) -> Member:
    return Member(code, language, f"{folder}/{code}_weights.hdf5")


#: The vocabulary of AI2's models of the 1 Billion Word benchmark.
VOCABULARY = Download(
    (
        f"{AI2}vocab-2016-09-10.txt",
        f"{AI2}2x4096_512_2048cnn_2xhighway/vocab-2016-09-10.txt",
        f"{AI2_TOO}vocab-2016-09-10.txt",
    )
)

#: Weights and options of English original and of English 5.5B.
ORIGINAL = _original("weights.hdf5", "options.json")
LARGE = _ai2(
    "2x4096_512_2048cnn_2xhighway_5.5B/",
    "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5",
    "elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json",
)

#: ELMoForManyLangs's languages with their numbers in NLPL's repository, as its README lists them.
MANY_LANGS = (
    Member("ar", "Arabic", "136"),
    Member("bg", "Bulgarian", "137"),
    Member("ca", "Catalan", "138"),
    Member("cs", "Czech", "139"),
    Member("cu", "Old Church Slavonic", "140"),
    Member("da", "Danish", "141"),
    Member("de", "German", "142"),
    Member("el", "Greek", "143"),
    Member("en", "English", "144"),
    Member("es", "Spanish", "145"),
    Member("et", "Estonian", "146"),
    Member("eu", "Basque", "147"),
    Member("fa", "Persian", "148"),
    Member("fi", "Finnish", "149"),
    Member("fr", "French", "150"),
    Member("ga", "Irish", "151"),
    Member("gl", "Galician", "152"),
    Member("grc", "Ancient Greek", "153"),
    Member("he", "Hebrew", "154"),
    Member("hi", "Hindi", "155"),
    Member("hr", "Croatian", "156"),
    Member("hu", "Hungarian", "157"),
    Member("id", "Indonesian", "158"),
    Member("it", "Italian", "159"),
    Member("ja", "Japanese", "160"),
    Member("ko", "Korean", "161"),
    Member("la", "Latin", "162"),
    Member("lv", "Latvian", "163"),
    Member("nb", "Norwegian Bokmål", "165"),
    Member("nl", "Dutch", "164"),
    Member("nn", "Norwegian Nynorsk", "166"),
    Member("pl", "Polish", "167"),
    Member("pt", "Portuguese", "168"),
    Member("ro", "Romanian", "169"),
    Member("ru", "Russian", "170"),
    Member("sk", "Slovak", "171"),
    Member("sl", "Slovene", "172"),
    Member("sv", "Swedish", "173"),
    Member("tr", "Turkish", "174"),
    Member("ug", "Uyghur", "175"),
    Member("uk", "Ukrainian", "176"),
    Member("ur", "Urdu", "177"),
    Member("vi", "Vietnamese", "178"),
    Member("zh", "Chinese", "179"),
)

RELEASES = (
    Release(
        "English small",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "small",
        _ai2(
            "2x1024_128_2048cnn_1xhighway/",
            "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5",
            "elmo_2x1024_128_2048cnn_1xhighway_options.json",
        ),
        size="~54 MB",
        width=256,
    ),
    Release(
        "English medium",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "medium",
        _ai2(
            "2x2048_256_2048cnn_1xhighway/",
            "elmo_2x2048_256_2048cnn_1xhighway_weights.hdf5",
            "elmo_2x2048_256_2048cnn_1xhighway_options.json",
        ),
        size="~112 MB",
        width=512,
    ),
    Release(
        "English original",
        "English, 1 Billion Word benchmark",
        "HDF5",
        "original",
        ORIGINAL,
        size="374 MB",
        width=1024,
        how=f"weights and options; the vocabulary too, if word ids matter: {VOCABULARY.urls[0]}",
    ),
    Release(
        "English original, with its softmax",
        "English, 1 Billion Word benchmark; a language model",
        "HDF5",
        "original-softmax",
        (
            *ORIGINAL,
            *_ai2("2x4096_512_2048cnn_2xhighway/", "elmo_2x4096_512_2048cnn_2xhighway_softmax_weights.hdf5"),
            VOCABULARY,
        ),
        size="374 MB and the softmax of 793,471 words",
        width=1024,
        how="weights, options, softmax and vocabulary",
    ),
    Release(
        "English 5.5B",
        "English, Wikipedia and WMT 2008-2012",
        "HDF5",
        "5.5B",
        LARGE,
        size="~374 MB",
        width=1024,
    ),
    Release(
        "English 5.5B, with its softmax",
        "English, Wikipedia and WMT 2008-2012; a language model",
        "HDF5",
        "5.5B-softmax",
        (
            *LARGE,
            *_ai2(
                "2x4096_512_2048cnn_2xhighway_5.5B/",
                "elmo_2x4096_512_2048cnn_2xhighway_5.5B_softmax_weights.hdf5",
                "tf_checkpoint/vocab-enwiki-news-500000.txt",
            ),
        ),
        size="~374 MB and the softmax",
        width=1024,
        how="weights, options, softmax and vocabulary",
    ),
    Release(
        "English original, checkpoint",
        "English, 1 Billion Word benchmark; with the softmax",
        "TensorFlow checkpoint",
        "original-checkpoint",
        (
            *_ai2(
                "2x4096_512_2048cnn_2xhighway_tf_checkpoint/",
                "options.json",
                "model.ckpt-935588.index",
                "model.ckpt-935588.data-00000-of-00001",
            ),
            VOCABULARY,
        ),
        width=1024,
        how="the folder with all of its files, and the vocabulary",
    ),
    Release(
        "English medium, checkpoint",
        "English, 1 Billion Word benchmark; with the softmax",
        "TensorFlow checkpoint",
        "medium-checkpoint",
        (
            *_ai2(
                "2x2048_256_2048cnn_1xhighway/tf_checkpoint/",
                "options.json",
                "model.ckpt-1501260.index",
                "model.ckpt-1501260.data-00000-of-00001",
            ),
            VOCABULARY,
        ),
        width=512,
        how="the folder with all of its files, and the vocabulary",
    ),
    Release(
        "PubMed",
        "English, biomedical",
        "HDF5",
        "pubmed",
        _ai2(
            "contributed/pubmed/",
            "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
            "elmo_2x4096_512_2048cnn_2xhighway_options.json",
        ),
        size="~374 MB",
        width=1024,
    ),
    Release(
        "BioELMo",
        "English, 2.46 billion words of PubMed; perplexity 31.37",
        "HDF5; TensorFlow checkpoint",
        "bioelmo",
        files="weights, options, vocabulary; a checkpoint in three files",
        where="https://github.com/Andy-jqa/bioelmo",
        how="weights, options and vocabulary; or the folder of the checkpoint",
        by_hand="download weights, options and vocabulary from the links in https://github.com/Andy-jqa/bioelmo, and "
        "give the three files instead",
    ),
    Release(
        "Portuguese, Wikipedia",
        "Portuguese",
        "HDF5",
        "portuguese",
        _ai2("contributed/pt/wikipedia/", "elmo_pt_weights.hdf5", "options.json"),
    ),
    Release(
        "Portuguese, brWaC",
        "Portuguese, the web",
        "HDF5",
        "portuguese-brwac",
        _ai2("contributed/pt/brwac/", "elmo_pt_weights_dgx1.hdf5", "options.json"),
    ),
    Release(
        "Portuguese, older",
        "Portuguese, as Flair used it",
        "HDF5",
        "portuguese-older",
        _ai2("contributed/pt/", "elmo_pt_weights.hdf5", "elmo_pt_options.json"),
    ),
    Release(
        "Japanese",
        "Japanese, ExaWizards (ACL P19-1458)",
        "HDF5",
        "japanese",
        (
            Download(("https://exawizardsallenlp.blob.core.windows.net/data/weights.hdf5",)),
            Download(("https://exawizardsallenlp.blob.core.windows.net/data/options.json",)),
        ),
    ),
    Release(
        "German",
        "German, Wikipedia",
        "HDF5",
        "german",
        (
            Download((f"{GERMAN}releases/download/files_1/weights.hdf5",), "md5:f3ab3a68caae6d42bac47c230b3a65bf"),
            Download((f"{GERMAN}releases/download/files_1/options.json",), "md5:da99676f2fe2838ff2663a6d9bad97dd"),
        ),
        licence="BSD 2-Clause, of its repository",
    ),
    Release(
        "German, checkpoint",
        "German, Wikipedia; with the softmax",
        "TensorFlow checkpoint in a split archive",
        "german-checkpoint",
        files="bilm-output-result.tgz.part-00 to .part-03",
        where=GERMAN,
        licence="BSD 2-Clause, of its repository",
        how="join the parts (`cat bilm-output-result.tgz.part-* > german.tgz`), unpack, delete weights.hdf5, which "
        "has no softmax, give the folder",
        by_hand=f"download the four parts from {GERMAN}, join them (cat bilm-output-result.tgz.part-* > german.tgz), "
        "unpack german.tgz, delete its weights.hdf5, and give the folder instead",
    ),
    Release(
        "Basque",
        "Basque, Wikipedia, OPUS and the Leipzig Corpora Collection",
        "HDF5",
        "basque",
        (
            Download(("https://schweter.eu/cloud/eu-elmo/weights.hdf5",)),
            Download(("https://schweter.eu/cloud/eu-elmo/options.json",)),
        ),
    ),
    Release(
        "French",
        "French, OSCAR and Common Crawl",
        "HDF5 in a zip",
        "french",
        _one("https://traces1.inria.fr/oscar/files/models/cc/fr.zip"),
        how="the zip; or elmo_fr_020_weights.hdf5 and elmo_fr_020_options.json, which it holds",
    ),
    Release(
        "SeqVec",
        "proteins, UniRef50; a word is one residue",
        "HDF5 in a zip",
        "seqvec",
        _one("https://rostlab.org/~deepppi/seqvec.zip"),
        size="374,434,776 bytes",
        width=1024,
        how="the zip; its users take the sum of the layers, 3 times the mean",
    ),
    Release(
        "NLPL",
        "many languages, from their text collections of 2017 on",
        "HDF5 in a zip",
        "nlpl:ID",
        _one(f"{NLPL}20/{{}}.zip", f"{NLPL}11/{{}}.zip"),
        files="ID.zip (meta.json, model.hdf5, options.json, mostly vocab.txt or vocab.txt.gz)",
        where=f"{NLPL}20/ and 11/; catalogue 20.json",
        how="the zip; ids 136 to 179 are ELMoForManyLangs",
    ),
    Release(
        "RusVectores",
        "Russian, words (195) and lemmas (196), Taiga 2048 and others",
        "HDF5 in a zip",
        files="195.zip, 196.zip",
        where=f"{NLPL}20/",
        how="`nlpl:195`, `nlpl:196`, or the zip",
    ),
    Release(
        "NorELMo",
        "Norwegian; 210 lemmas, 211 words, 217 and 218 with 30,000 and 100,000 words",
        "HDF5 in a zip",
        files="210.zip, 211.zip, 217.zip, 218.zip",
        where=f"{NLPL}20/",
        how="`nlpl:210`, `nlpl:211`, `nlpl:217`, `nlpl:218`, or the zip",
    ),
    Release(
        "EMBEDDIA, Slovene",
        "Slovene (arXiv 1911.10049)",
        "HDF5 in a tar.gz",
        "slovene",
        _one(f"{CLARIN}bitstream/handle/11356/1277/slovenian-elmo.tar.gz"),
        licence=f"see {CLARIN}handle/11356/1277",
        how="the archive",
    ),
    Release(
        "EMBEDDIA",
        "Croatian, Estonian, Finnish, Latvian, Lithuanian, Slovene, Swedish (arXiv 1911.10049)",
        "HDF5 in a tar.gz",
        "embeddia",
        files="an archive for each language",
        where=f"{CLARIN}handle/11356/1277",
        licence=f"see {CLARIN}handle/11356/1277",
        how="the archive of a language",
        by_hand=f"download the archive of your language from {CLARIN}handle/11356/1277, and give it instead "
        "(for Slovene, convert slovene)",
    ),
    Release(
        "ELMoForManyLangs",
        "44 languages",
        "ELMoForManyLangs in a zip",
        "efml:LANG",
        _one(f"{NLPL}11/{{}}.zip", f"{NLPL}20/{{}}.zip"),
        MANY_LANGS,
        "136.zip to 179.zip (config.json, meta.json, word.dic, char.dic, encoder.pkl, token_embedder.pkl)",
        f"{NLPL}11/",
        width=1024,
        licence=NOT_STATED_OF_WEIGHTS,
        how="the zip or its folder",
    ),
    Release(
        "ELMoForManyLangs, simplified Chinese",
        "Chinese, Gigaword",
        "ELMoForManyLangs in a tar.bz2",
        "efml:zhs",
        _one(
            "http://39.96.43.154/zhs.model.tar.bz2",
            "https://gnes-1252847528.cos.ap-guangzhou.myqcloud.com/zhs.model.tar.bz2",
        ),
        width=1024,
        licence=NOT_STATED_OF_WEIGHTS,
        how="the archive or its folder",
    ),
    Release(
        "AllenNLP archives",
        "trained taggers, parsers and others with an ELMo inside",
        "AllenNLP archive",
        files="model.tar.gz; weights.th, best.th",
        where="AllenNLP's model pages; https://huggingface.co/IshiKura/ELMo (MIT)",
        licence="as each publisher states",
        how="the archive; the ELMo with its trained mix is taken, the rest is left",
    ),
    Release(
        "AllenNLP's BiDAF",
        "English original in a reader of questions, 2020.03.19",
        "AllenNLP weights",
        "bidaf",
        _one(f"{HUB}bidaf-elmo-model-2020.03.19/resolve/main/weights.th"),
        size="450 MB",
        how="the weights; the ELMo with its trained mix is taken, the rest is left",
    ),
    Release(
        "AllenNLP's test model",
        "a fixture of AllenNLP's tests, for a first try",
        "HDF5",
        "test-tiny",
        (
            Download((f"{HUB}test-elmo-tiny/resolve/main/lm_weights.hdf5",)),
            Download((f"{HUB}test-elmo-tiny/resolve/main/options.json",)),
        ),
        size="451 kB",
        width=32,
    ),
    Release(
        "Multilingual, aligned",
        "Wikipedia, to align in one space (TalSchuster/CrossLingualContextualEmb)",
        "HDF5",
        "aligned:LANG",
        (
            Download(("https://www.dropbox.com/s/{}?dl=1",)),
            Download(("https://www.dropbox.com/s/ypjuzlf7kj957g3/options262.json?dl=1",)),
        ),
        (
            _aligned("de", "German", "2kbjnvb12htgqk8"),
            _aligned("en", "English", "1h62kc1qdcuyy2u"),
            _aligned("es", "Spanish", "ygfjm7zmufl5gu2"),
            _aligned("fr", "French", "mm64goxb8wbawhj"),
            _aligned("it", "Italian", "owfou7coi04dyxf"),
            _aligned("pt", "Portuguese", "ul82jsal1khfw5b"),
            _aligned("sv", "Swedish", "boptz21zrs4h3nw"),
        ),
        "LANG_weights.hdf5, options262.json; LANG_best_mapping.pth",
        "https://github.com/TalSchuster/CrossLingualContextualEmb",
        licence=NOT_STATED_OF_WEIGHTS,
        how="weights and options of one language; the matrices that align it are not taken",
    ),
    Release(
        "TensorFlow Hub",
        "English, google/elmo 1 to 3",
        "SavedModel",
        "tfhub",
        _one("https://tfhub.dev/google/elmo/3?tf-hub-format=compressed"),
        files="saved_model.pb, variables",
        width=1024,
        how="the folder or archive, by the names that TensorFlow Hub logs",
    ),
    *(
        Release(
            f"DeepPavlov, {text}",
            f"Russian, {text}; perplexity {perplexity}",
            "SavedModel in a tar.gz",
            name,
            _one(f"{DEEPPAVLOV}{file}", *mirrors),
            licence="Apache 2.0",
            how="the archive",
        )
        for name, text, perplexity, file, *mirrors in (
            (
                "russian-news",
                "WMT news",
                49.876,
                "elmo_ru-news_wmt11-16_1.5M_steps.tar.gz",
                "https://storage.googleapis.com/az-nlp/elmo_ru-news_wmt11-16_1.5M_steps.tar.gz",
            ),
            ("russian-wiki", "Wikipedia", 43.692, "elmo_ru-wiki_600k_steps.tar.gz"),
            ("russian-twitter", "Twitter", 94.145, "elmo_ru-twitter_2013-01_2018-04_600k_steps.tar.gz"),
        )
    ),
    Release(
        "DeepPavlov, checkpoints",
        "Russian: news, Wikipedia, Twitter; with the softmax",
        "TensorFlow checkpoint",
        files="elmo-lm-ready4fine-tuning-ru-*",
        where=DEEPPAVLOV,
        size="about 4 GB",
        how="the folder of one checkpoint with options and vocabulary",
    ),
    Release(
        "transformer-elmo",
        "English; Basque (eu-elmo-transformer-model.tar.gz)",
        "AllenNLP archive",
        "transformer-elmo",
        files="transformer-elmo-2019.01.10.tar.gz",
        where="AllenNLP's models; schweter.eu",
        converts=False,
        how="not an LSTM ELMo: a Transformer under its name",
        by_hand="it is not an LSTM ELMo, but a Transformer under its name. For English convert original, for Basque "
        "convert basque",
    ),
    Release(
        "Indian languages",
        "14 languages (LREC 2020, A Passage to India)",
        "unknown",
        files="436 models, some of them ELMo",
        where="the page of the paper",
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
    yield release.title
    for label, value in (
        ("name", release.name or "none: give the files"),
        ("content", release.all_content),
        ("format", release.kind),
        ("files", release.file_names),
        ("where", release.address),
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
    rows = [("release", "name", "content", "format, size", "files", "where", "licence", "converts"), ("---",) * 8]
    rows += [
        (
            each.title,
            f"`{each.name}`" if each.name else "",
            each.all_content,
            each.kind,
            each.file_names,
            each.address,
            each.licence,
            each.answer,
        )
        for each in releases
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_data(releases: Iterable[Release] = RELEASES) -> list[dict[str, Any]]:
    """Return the releases as data for JSON."""
    return [asdict(release) | {"files": release.file_names, "where": release.address} for release in releases]


__all__ = ["NOT_STATED", "RELEASES", "Download", "Member", "Release", "as_data", "as_markdown", "as_text"]
