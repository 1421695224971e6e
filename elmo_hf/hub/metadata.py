"""Check the metadata of a model card without network: licence, languages and names, as the Hub takes them."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from elmo_hf.errors import ElmoError


# all that the Hub takes; it calls every other one `other`
LICENSES = frozenset(
    """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0
    eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 grok2-community h-research
    intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit
    mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openmdw-1.0 openrail openrail++ osl-3.0 pddl postgresql unknown unlicense
    wtfpl zlib other
    """.split()  # noqa: SIM905 - so the list is short
)

# ISO 639-1; of the thousands of codes with three letters only the Hub knows which exist
TWO_LETTERS = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv
    ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne
    ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss
    st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()  # noqa: SIM905 - so the list is short
)
SPECIAL_LANGUAGES = ("code", "multilingual")

# codes of countries that are often taken for those of languages
LANGUAGES_OF = {"jp": "ja", "cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "kp": "ko", "ua": "uk", "vn": "vi"}

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def check_metadata(metadata: Mapping[str, Any], where: str) -> None:
    """Check the metadata of a card.

    Args:
        metadata: The metadata by name.
        where: The name of the card, for errors.

    Raises:
        ElmoError: If the Hub would refuse them.
    """
    try:
        for license in _listed(metadata.get("license")):
            check_license(license)
        check_language(_listed(metadata.get("language")))
        for key in ("base_model", "datasets"):
            for name in _listed(metadata.get(key)):
                _check_name(key, name)
    except ElmoError as error:
        raise ElmoError(f"{where}: {error}") from error


def check_license(license: str) -> str:
    """Return the Hub's identifier of a licence.

    Raises:
        ElmoError: If the Hub has no such identifier.
    """
    name = str(license).lower()
    if name not in LICENSES:
        near = difflib.get_close_matches(name.replace(" ", "-"), sorted(LICENSES), n=1)
        raise ElmoError(
            f"{license!r} is no licence that the Hub knows: give its identifier there, such as "
            f"{near[0] if near else 'apache-2.0'}, or other, and the name as license_name in README.md."
        )
    return name


def check_language(codes: str | Sequence[str]) -> str | list[str] | None:
    """Return language codes as the metadata have them: one, several, or `None`.

    Raises:
        ElmoError: If a code has not the form of one, or has two letters and does not exist.
    """
    codes = _listed(codes)
    for code in codes:
        exists = code in TWO_LETTERS if len(code) == 2 else re.fullmatch("[a-z]{3}", code)
        if not (exists or code in SPECIAL_LANGUAGES):
            raise ElmoError(
                f"{code!r} is no language code: give one of ISO 639 with two or three small letters, such as "
                f"{LANGUAGES_OF.get(code.lower(), 'en')}, or code or multilingual."
            )
    return codes[0] if len(codes) == 1 else codes or None


def _check_name(key: str, name: Any) -> None:
    if not NAME.fullmatch(str(name)):
        raise ElmoError(f"The {key} {name!r} is no name on the Hub: write it as ORG/NAME.")


def _listed(value: Any) -> list[Any]:
    """Return a value as a list: in a card, one value means the same as a list of one."""
    return [value] if isinstance(value, str) else list(value or [])


__all__ = ["check_language", "check_license", "check_metadata"]
