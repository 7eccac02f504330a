"""Phishing website: a web-security analyst reads a site's technical signals (UCI 327).

All rows count; ``Result`` -1 is a phishing site. The signals carry codes, decoded by the rules of the authors'
"Phishing Websites Features": 1 is the legitimate reading, 0 the suspicious one, -1 the phishing one. Only signals whose
association with ``Result`` has the documented sign are used.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.tables import read_arff

_HYPHEN = {"1": "no hyphen", "-1": "a hyphen"}
_SUBDOMAINS = {"1": "no subdomain", "0": "one subdomain", "-1": "several subdomains"}
_CERTIFICATE = {
    "1": "uses HTTPS with a certificate that comes from a trusted issuer and is at least a year old",
    "0": "uses HTTPS, but its certificate does not come from a trusted issuer",
    "-1": "either does not use HTTPS or has a certificate less than a year old",
}
_AGE = {"1": "shows", "-1": "does not show"}
_ANCHORS = {"1": "fewer than 31%", "0": "between 31% and 67%", "-1": "more than 67%"}
_TAG_LINKS = {"1": "fewer than 17%", "0": "between 17% and 81%", "-1": "more than 81%"}
_TRAFFIC = {
    "1": "ranks among the 100,000 most visited websites",
    "0": "ranks outside the 100,000 most visited websites",
    "-1": "has no recorded traffic rank",
}
_INDEXED = {"1": "is in Google’s index", "-1": "is not in Google’s index"}


def evidence(row: Row) -> str:
    return (
        f"The site {_CERTIFICATE[row['SSLfinal_State']]}. "
        f"Its domain name contains {_HYPHEN[row['Prefix_Suffix']]}, "
        f"the address has {_SUBDOMAINS[row['having_Sub_Domain']]}, "
        f"and the WHOIS record {_AGE[row['age_of_domain']]} the domain to be at least six months old. "
        f"On the page, {_ANCHORS[row['URL_of_Anchor']]} of the anchors lead to another domain or to no page at all, "
        f"and {_TAG_LINKS[row['Links_in_tags']]} of the links in meta, script, and link tags go to another domain. "
        f"The site {_TRAFFIC[row['web_traffic']]}, and the page {_INDEXED[row['Google_Index']]}."
    )


DOMAIN = Domain(
    name="phishing_website",
    status="seen",
    setup=(
        "You are a web-security analyst judging, from a site’s technical signals, whether it was created to deceive "
        "users and steal their credentials."
    ),
    event="this website was built to steal users’ credentials (a phishing site) rather than being a legitimate site",
    source=Source(
        id="uci:327",
        title="Phishing Websites",
        creators="Mohammad, R. and McCluskey, L. (2012)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/327",
        archive="https://archive.ics.uci.edu/static/public/327/phishing+websites.zip",
        member="Training Dataset.arff",
        sha256=None,  # no copy was compared with the original byte for byte
        rows=11055,
        copies={"phishing-websites.arff": "0dfcd84ccdedca6e1be2ce26452c1f1089ac3f839b9a1b0ab1cdcf6d895f9a70"},
    ),
    covariates=(
        "SSLfinal_State",
        "Prefix_Suffix",
        "having_Sub_Domain",
        "age_of_domain",
        "URL_of_Anchor",
        "Links_in_tags",
        "web_traffic",
        "Google_Index",
    ),
    read=lambda files: read_arff(files[0]),
    outcome=lambda row: {"-1": 1, "1": 0}.get(row["Result"]),
    evidence=evidence,
)
